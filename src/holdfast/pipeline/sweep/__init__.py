"""Thousands of simulations over a grid of settings and seeds: cells as Spark tasks, tables and charts from them."""
