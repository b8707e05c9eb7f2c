"""What to expect before anything runs: closed forms and computations in seconds, floats and arrays."""
