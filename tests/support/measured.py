"""What is known of the results that ship."""

MEASURED_IN_PART = {"rivals"}
"""Studies whose pages say which cells have not been run so far: some or all."""
