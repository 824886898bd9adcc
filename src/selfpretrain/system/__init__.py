"""This process and this machine: files, start, hardware, processes that train together, progress."""
