"""Process and machine: files and locks, signals, progress events, hardware, memory, distributed training."""
