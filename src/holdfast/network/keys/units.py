"""Shapes that several tables share. Units stand in the names of keys: `_s`, `_ms`, `_bytes`, `_per_s`."""

from holdfast.network import limits
from holdfast.network.shapes import Number

SHARE = Number(0, 1)
MOMENT = Number(0, limits.DURATION_S_MAX, "seconds", micro=1_000_000)
SPAN = Number(0, limits.DURATION_S_MAX, "seconds", micro=1_000_000, above=True)
RATE = Number(0, limits.RATE_PER_S_MAX, "publications", above=True)
SEED = Number(0, 2**63 - 1, integer=True)
START = "a tenth of the run, at most 1 s"
STOP = "as long before the end of the run"
