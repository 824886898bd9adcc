"""Objectives: what the network is asked. One file, one objective."""
