"""Which of the events that somebody asks for we have."""

from holdfast.model.messages import EventIds, MissingEvents
from holdfast.protocol.gossip.buffer import Buffer, BufferedEvent


def left_of(missing: MissingEvents, buffer: Buffer) -> tuple[list[BufferedEvent], MissingEvents]:
    """The events that are in the buffer, each once, and what is asked for beyond them."""
    found: dict[tuple[str, int], BufferedEvent] = {}
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


def named_in(ids: EventIds, buffer: Buffer) -> list[BufferedEvent]:
    """Those of the events that are in the buffer, each once."""
    named = dict.fromkeys((source, seq) for source, seqs in ids for seq in seqs)
    return [kept for source, seq in named if (kept := buffer.event(source, seq)) is not None]


def beyond(
    buffer: Buffer, stream: tuple[str, int, int], last: int, expected: int, since_us: int
) -> list[BufferedEvent]:
    """What somebody may lack of a stream of ours who has got this far and wants what came in since then."""
    found: list[BufferedEvent] = []
    for number in range(last, max(expected, 1) - 1, -1):
        kept = buffer.at((*stream, number))
        if kept is None or kept.at_us < since_us:
            break  # as those before it: they came earlier, and have left the buffer earlier
        found.append(kept)
    return found[::-1]
