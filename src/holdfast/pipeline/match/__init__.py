"""Which subscription wants which event, at any scale: the matcher as batch and streaming jobs."""
