"""Code shared by objectives: heads, reconstruction losses and the joint objective."""
