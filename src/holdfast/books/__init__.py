"""The books of a run: what was owed and what became of it, the trace, and the promises judged on it."""
