"""Runs many recipes, each stage once: planning, a queue, executors, results on disk, provenance."""
