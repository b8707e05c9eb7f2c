"""Paper 000: end-to-end recovery."""
