"""Many recipes, each stage once: plan, run, keep, find again."""
