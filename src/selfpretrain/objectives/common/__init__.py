"""Code that the files of this shelf share."""
