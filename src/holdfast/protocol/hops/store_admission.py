"""Whether a broker's store has room for a message: never more than its limit, and never a circle of full brokers.

Brokers that are full and wait for each other would wait for ever. Two rules prevent that. Most of the store is shared,
and events that have come further may fill it further, so that publishers cannot take what events under way need. A
quarter is set aside in equal parts, one for each neighbour that events are kept for: a broker whose parts are free, but
for the one of the sender, still takes from another broker when the rest is full. On a tree events do not turn back, so
that what keeps a part from being free lies further away from the sender, and at the end are clients, who take.
"""

from collections.abc import Iterable


def shared_part(stored_max: int, hops: int) -> int:
    """How many events there may be in the store for one more that has come so far; publishers get half.

    With each hop half of the rest: most ways are short, and a window of events needs room at the first hop already.
    """
    shared = stored_max - stored_max // 4
    return shared - (shared // 2 >> hops)


def has_own_part(stored_max: int, kept_for: Iterable[int], count: int) -> bool:
    """Whether so many more fit into every part, given how many are there; into an empty one any message does."""
    lengths = list(kept_for)
    part = stored_max // 4 // (len(lengths) + 1)
    return all(not length or length + count <= part for length in lengths)
