"""The styles of gossip: what a broker says when its round comes, and which way it goes.

All of them share the machine in `gossip`; a style is what it wants to have on events, and one small function.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from holdfast.model.messages import EventIds, MissingEvents
from holdfast.protocol.gossip.buffer import Buffer
from holdfast.protocol.gossip.classes import Classes
from holdfast.protocol.gossip.losses import LossTracker
from holdfast.protocol.gossip.settings import GossipSettings, StyleName


@dataclass(frozen=True)
class Holdings:
    """What a broker has to speak of."""

    classes: Classes
    buffer: Buffer
    losses: LossTracker
    settings: GossipSettings
    dice: Random


@dataclass(frozen=True)
class Have:
    """Tell those who want a class what there is of it."""

    tag: int
    ids: EventIds


@dataclass(frozen=True)
class AskSubscribers:
    """Ask those who want a class for what is missing of it."""

    tag: int
    missing: MissingEvents


@dataclass(frozen=True)
class AskOrigin:
    """Ask along the way back to where events came in."""

    origin: str
    missing: MissingEvents


@dataclass(frozen=True)
class AskAnybody:
    missing: MissingEvents


Saying = Have | AskSubscribers | AskOrigin | AskAnybody


def _push(holdings: Holdings) -> Saying | None:
    tag = holdings.classes.any_wanted(holdings.dice)
    if tag is None:
        return None
    ids = holdings.buffer.ids(tag, holdings.settings.digest_max)
    return Have(tag, ids) if ids else None


def _one_of(those: list[int], dice: Random) -> int:
    return those[int(dice.random() * len(those))]


def _subscriber_pull(holdings: Holdings) -> Saying | None:
    if not holdings.losses:
        return None
    tag = _one_of(holdings.losses.tags, holdings.dice)
    return AskSubscribers(tag, holdings.losses.of_class(tag, holdings.settings.digest_max))


def _publisher_pull(holdings: Holdings) -> Saying | None:
    if not holdings.losses:
        return None
    origins = holdings.losses.origins
    origin = origins[int(holdings.dice.random() * len(origins))]
    return AskOrigin(origin, holdings.losses.of_origin(origin, holdings.settings.digest_max))


def _combined_pull(holdings: Holdings) -> Saying | None:
    to_source = holdings.dice.random() < holdings.settings.source_ratio
    return _publisher_pull(holdings) if to_source else _subscriber_pull(holdings)


def _random_pull(holdings: Holdings) -> Saying | None:
    if not holdings.losses:
        return None
    tag = _one_of(holdings.losses.tags, holdings.dice)
    return AskAnybody(holdings.losses.of_class(tag, holdings.settings.digest_max))


@dataclass(frozen=True)
class Style:
    next_message: Callable[[Holdings], Saying | None] | None  # None: rounds are those of `reconciling`
    numbers: bool = True  # events are stamped, so that losses are noticed
    routes: bool = False  # events tell their way, so that it can be gone back


STYLES: dict[StyleName, Style] = {
    "push": Style(_push, numbers=False),
    "subscriber-pull": Style(_subscriber_pull),
    "publisher-pull": Style(_publisher_pull, routes=True),
    "combined-pull": Style(_combined_pull, routes=True),
    "random-pull": Style(_random_pull),
    "reconcile": Style(None),
}
