"""Every key of the network file: its shape, default and meaning. docs/network-file.md is printed from here.

Units stand in the names: `_s` seconds, `_ms` milliseconds, `_bytes`, `_per_s`. A share is a number from 0 to 1. A
default's reason stands in the meaning, where users see it too.
"""
