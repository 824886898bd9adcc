"""Objectives for pretraining and finetuning, one module each."""
