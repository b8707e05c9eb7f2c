"""What a subscription begins with, as one round: retained events, or events of the past.

The same event may come as a new one as well, or in the round of another subscription, and none of these is a repeat of
the other. So a round is known by its subscription and the time when it began, and its events by that too. A round of
retained events lasts until the client has acknowledged them all: a connection may break in the middle, and a broker
with a store may be killed, and then the rest comes when the client is back.
"""

from typing import Any

EventKey = tuple[Any, ...]  # an event's source and number; of one that is replayed also the subscription and the time


def is_new(key: EventKey) -> bool:
    """Whether an event has come as a new one: it was not replayed."""
    return len(key) == 2


class Round:
    def __init__(self, name: str, began_us: int, lasts: bool = True, is_resumed: bool = False) -> None:
        self.name = name  # of the subscription
        self.began_us = began_us
        self.lasts = lasts  # beyond the connection
        self.is_resumed = is_resumed  # after the broker was killed
        self.is_read = False  # all of it was found and sent
        self.unacknowledged = 0
        self.done: set[EventKey] = set()  # of quality 2, where there are notes: the next process begins it again

    @property
    def is_over(self) -> bool:
        return self.is_read and not self.unacknowledged

    def key(self, source: str, seq: int) -> EventKey:
        return source, seq, self.name, self.began_us
