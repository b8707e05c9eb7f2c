"""One publication as a workload draws it, and the part of a run in which it draws."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import NamedTuple

from holdfast.model.settings import setting
from holdfast.model.values import Value
from holdfast.network.limits import BYTES_MAX


class ScheduledEvent(NamedTuple):
    at_us: int
    client: str
    attributes: dict[str, Value]
    payload_bytes: int
    lifetime_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTraits:
    """What all publications of one kind have in common."""

    payload_bytes: int = setting(
        0,
        "size of the opaque part of each event; it takes capacity on links",
        "attributes alone are most of an event",
        at_least=0,
        at_most=BYTES_MAX,
        key="payload_bytes",
    )
    lifetime_us: int | None = setting(
        None,
        "an event older than this is not delivered",
        "late is better than never",
        key="lifetime_s",
        otherwise="for ever",
    )


class PublishingWindow(NamedTuple):
    start_us: int
    stop_us: int  # the first microsecond that is no longer in it


at_us_of = itemgetter(0)

Fields = tuple[int, str, dict[str, Value], int, int | None]
publication: Callable[[Fields], ScheduledEvent] = partial(tuple.__new__, ScheduledEvent)
"""A publication from its fields; a fifth of a microsecond quicker than calling the class."""
