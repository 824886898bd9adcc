"""Looking at a task's data: baselines, checks, profile, preview."""
