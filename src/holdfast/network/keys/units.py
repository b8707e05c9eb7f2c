"""Shapes that several tables share. Units stand in the names of keys: `_s`, `_ms`, `_bytes`, `_per_s`."""

from holdfast.network import limits
from holdfast.network.shapes import Number
from holdfast.network.tables import Key

SHARE = Number(0, 1)
MOMENT = Number(0, limits.DURATION_S_MAX, "seconds", micro=1_000_000)
SPAN = Number(0, limits.DURATION_S_MAX, "seconds", micro=1_000_000, above=True)
DELAY = Number(0, limits.DELAY_S_MAX * 1_000, "milliseconds", micro=1_000)
PAUSE = Number(0, limits.DELAY_S_MAX * 1_000, "milliseconds", micro=1_000, above=True)
QUEUE = Number(1, limits.QUEUE_MAX, "messages", whole=True)
RATE = Number(0, limits.RATE_PER_S_MAX, "publications", above=True)
BYTES = Number(0, limits.BYTES_MAX, "bytes", whole=True)
SEED = Number(0, 2**63 - 1, whole=True)
EVENT_KEYS = (
    Key("payload_bytes", BYTES, "size of the opaque part of each event; it takes capacity on links", 0),
    Key("lifetime_s", SPAN, "an event older than this is not delivered", default_words="for ever"),
)
START = "a tenth of the run, at most 1 s"
STOP = "as long before the end of the run"
