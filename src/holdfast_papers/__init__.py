"""The papers' figures and claims, measured again: one study for each paper, each a set of sweeps on Spark.

A study says what to run at which scale, which charts to draw, and which claims follow from the runs; `study` does it
and writes the tables. No value in them is written by hand but the papers' own.
"""
