"""Experiment trackers (W&B, TensorBoard, Trackio, JSON lines), one module each; selected with --track."""
