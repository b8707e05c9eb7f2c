"""Benchmarks: each module with a `main` is one of them, run as `./run bench NAME`."""
