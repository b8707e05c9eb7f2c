"""Frames and traces of each version, as they were written then; README.md says how."""
