"""Command line: a module for each command or two, thin layers over the library."""
