"""Token mixers: attention, state space models, convolutions and recurrences, one module each."""
