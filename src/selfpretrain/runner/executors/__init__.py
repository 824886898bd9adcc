"""Where stages run: one file each."""
