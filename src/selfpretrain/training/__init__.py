"""One recipe becomes trained weights."""
