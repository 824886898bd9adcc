"""Datasets: import, download, storage on disk, splits and padded batches."""
