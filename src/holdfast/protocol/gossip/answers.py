"""Which of the events that somebody asks for we have."""

from collections.abc import Iterator

from holdfast.model.messages import MissingEvents
from holdfast.protocol.gossip.buffer import Buffer, Kept


def left_of(missing: MissingEvents, buffer: Buffer) -> tuple[list[Kept], MissingEvents]:
    """The events that are in the buffer, each once, and what is asked for beyond them."""
    found: dict[tuple[str, int], Kept] = {}
    left = []
    for origin, epoch, tag, numbers in missing:
        absent = []
        for number in numbers:
            kept = buffer.at((origin, epoch, tag, number))
            if kept is None:
                absent.append(number)
            else:
                found[kept.publication.source, kept.publication.seq] = kept
        if absent:
            left.append((origin, epoch, tag, tuple(absent)))
    return list(found.values()), tuple(left)


def numbers_for(last: int, expected: int, missing: tuple[int, ...], count_max: int) -> Iterator[tuple[int, bool]]:
    """The numbers that somebody may lack who has got this far, and whether it knows; the newest if there are many."""
    for number in missing:
        yield number, True
    for number in range(max(expected, 1, last - count_max + 1), last + 1):
        yield number, False
