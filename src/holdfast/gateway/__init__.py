"""A client that keeps what it gets in a log, for readers who come later, and publishes exactly once for writers."""
