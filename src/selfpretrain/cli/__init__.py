"""Command line: one module per command, thin layers over the library."""
