"""Runs many recipes, each stage once: planning, job queue, executors, results on disk, provenance."""
