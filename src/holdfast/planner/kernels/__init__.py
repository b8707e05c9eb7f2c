"""Loops that are compiled by numba: plain arrays in and out, no idea of their own."""
