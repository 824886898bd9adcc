"""The command line: one file a verb, thin layers over the library."""
