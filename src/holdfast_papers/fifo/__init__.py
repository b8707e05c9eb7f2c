"""Paper 002: probabilistic FIFO."""
