"""Sequences on disk: where they live, the one form they are kept in, and how they get there."""
