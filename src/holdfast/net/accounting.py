"""What became of the events for one subscription: what was delivered, what waits and why, what is missing or lost."""

import msgspec

from holdfast.net.losses import Loss


class Missing(msgspec.Struct, frozen=True, gc=False):
    """Numbers of a publisher of which events for us are missing, or may be; they are being looked for."""

    source: str
    first: int
    last: int


class Account(msgspec.Struct, frozen=True):
    """One subscription at one time; what is missing or lost of a publisher may concern any of a client's."""

    attached: bool  # the client has a connection; without one nobody knows what is owed
    delivered: int  # events that the application has taken
    waiting: int  # that have come and were not taken yet
    held: int  # that have come and are held back for the sake of order, or until the past has been read
    dropped: int  # that had come and were dropped, because the application was too slow
    missing: tuple[Missing, ...]  # that are looked for
    lost: tuple[Loss, ...]  # given up since the subscription began, by number, or possibly lost, by time
    replaying: bool = False  # what the broker has kept is still being read

    @property
    def complete(self) -> bool:
        """Whether all that is owed so far has come, and nothing may have been lost since the subscription began."""
        return self.attached and not (self.replaying or self.held or self.dropped or self.missing or self.lost)
