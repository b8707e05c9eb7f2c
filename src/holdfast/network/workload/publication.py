"""One publication as a workload draws it, and the part of a run in which it draws."""

from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import NamedTuple

from holdfast.model.values import Value


class Publication(NamedTuple):
    at_us: int
    client: str
    attributes: dict[str, Value]
    payload_bytes: int
    lifetime_us: int | None


class Window(NamedTuple):
    start_us: int
    stop_us: int  # the first microsecond that is no longer in it


at_us_of = itemgetter(0)

Fields = tuple[int, str, dict[str, Value], int, int | None]
publication: Callable[[Fields], Publication] = partial(tuple.__new__, Publication)
"""A publication from its fields; a fifth of a microsecond quicker than calling the class."""
