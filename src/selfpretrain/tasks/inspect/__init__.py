"""Inspect a task's data: baselines, checks, profile, preview."""
