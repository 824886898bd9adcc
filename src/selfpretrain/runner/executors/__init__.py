"""Executors: where stages run, one module each (serial, processes, Ray, Slurm); selected with --executor."""
