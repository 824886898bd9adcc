"""Functions for mixers, without parameters or state: long convolutions, SSM kernels, linear attention."""
