"""Arms: ways of training an architecture that a comparison puts side by side."""
