"""Events of a run that match so much that their pairs would take too much memory: they are asked about in parts."""

from collections.abc import Sequence

from holdfast.model.event import Attributes

_PARTS = 8  # few are asked in vain, and few more often than they need be


class TooManyPairsError(Exception):
    """Ask about fewer events at a time."""


def parts_of(events: Sequence[Attributes]) -> list[slice]:
    size = -(-len(events) // _PARTS)
    return [slice(at, at + size) for at in range(0, len(events), size)]
