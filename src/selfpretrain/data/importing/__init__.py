"""From somebody's files to a prepared set of sequences."""
