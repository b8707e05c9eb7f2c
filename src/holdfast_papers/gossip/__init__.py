"""Paper 001: epidemic recovery."""
