"""Which of the events that somebody asks for we have."""

from collections.abc import Mapping

from holdfast.model.messages import EventIds, MissingEvents
from holdfast.protocol.gossip.buffer import Buffer, BufferedEvent


def left_of(missing: MissingEvents, buffer: Buffer) -> tuple[list[BufferedEvent], MissingEvents]:
    """The events that are in the buffer, each once, and what is asked for beyond them."""
    found: dict[tuple[str, int], BufferedEvent] = {}
    left = []
    for asked in missing:
        origin, epoch, tag, numbers = asked
        here = buffer.numbers(origin, epoch, tag)
        if here.keys().isdisjoint(numbers):  # mostly
            if numbers:
                left.append(asked)
            continue
        for number in numbers:
            kept = here.get(number)
            if kept is not None:
                found[kept.publication.source, kept.publication.seq] = kept
        absent = tuple([number for number in numbers if number not in here])
        if absent:
            left.append((origin, epoch, tag, absent))
    return list(found.values()), tuple(left)


def named_in(ids: EventIds, buffer: Buffer) -> list[BufferedEvent]:
    """Those of the events that are in the buffer, each once."""
    named = dict.fromkeys((source, seq) for source, seqs in ids for seq in seqs)
    return [kept for source, seq in named if (kept := buffer.event(source, seq)) is not None]


def beyond(here: Mapping[int, BufferedEvent], last: int, expected: int, since_us: int) -> list[BufferedEvent]:
    """What somebody may lack of a stream of ours who has got this far and wants what came in since then."""
    found: list[BufferedEvent] = []
    for number in range(last, max(expected, 1) - 1, -1):
        kept = here.get(number)
        if kept is None or kept.at_us < since_us:
            break  # as those before it: they came earlier, and have left the buffer earlier
        found.append(kept)
    return found[::-1]
