"""Code shared by several tasks."""
