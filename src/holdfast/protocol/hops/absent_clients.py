"""Clients that are not there to take what is kept for them, and what was given up for them meanwhile.

A quarter of the store is for clients that are away, in equal parts, so that however many stay away, publishers need not
wait for them. What does not fit is given up, the oldest first, and so is what has been kept for too long; how much that
was, from when and why is remembered until the client is back and has heard of it.
"""

from holdfast.model.messages import GivenUp
from holdfast.protocol.hops.settings import HandoverSettings
from holdfast.protocol.store_changes import GaveUp

_SHARE = 4  # of the store: less than the part that publishers may fill, so that they are never held up by it
_CLIENTS_MAX = 10_000  # of which we remember what was given up, as many as may be connected
_REASON_CHARACTERS_MAX = 300  # of all reasons together; there are three


class Away:
    def __init__(self, settings: HandoverSettings, gave_up: dict[str, GaveUp]) -> None:
        self._settings = settings
        self._since_us: dict[str, int] = {}
        self._holding: dict[str, None] = {}  # those of them for whom something is kept
        self._gave_up = gave_up

    def __contains__(self, client: str) -> bool:
        return client in self._since_us

    def begin(self, client: str, now_us: int) -> None:
        self._since_us.setdefault(client, now_us)

    def end(self, client: str) -> bool:
        """Whether it was away."""
        self._holding.pop(client, None)
        return self._since_us.pop(client, None) is not None

    def since_us(self, client: str, otherwise_us: int) -> int:
        return self._since_us.get(client, otherwise_us)

    def most_for(self, client: str, now_us: int) -> int | None:
        """Events that may be kept for a client, now that there are some; None while it is there or has just left."""
        since_us = self._since_us.get(client)
        if since_us is None or now_us - since_us < self._settings.away_us:
            return None
        self._holding[client] = None
        part = self._settings.stored_max // _SHARE // len(self._holding)
        return max(1, min(self._settings.away_max, part))

    # What was given up ---------------------------------------------------------------------------

    def give_up(self, client: str, since_us: int, until_us: int, events: int, reason: str) -> list[GaveUp]:
        """Remember it; the changes to what is stored."""
        changes: list[GaveUp] = []
        known = self._gave_up.pop(client, None)
        if known is not None:
            since_us, events = min(since_us, known.since_us), events + known.events
            until_us = max(until_us, known.until_us) if until_us and known.until_us else 0
            if reason not in known.reason:
                reason = f"{known.reason}; {reason}"[:_REASON_CHARACTERS_MAX]
            else:
                reason = known.reason
        elif len(self._gave_up) >= _CLIENTS_MAX:
            changes += self.forgive(next(iter(self._gave_up)))
        gone = self._gave_up[client] = GaveUp(client, since_us, until_us, events, reason)
        return [*changes, gone]

    def notice(self, client: str, now_us: int) -> GivenUp | None:
        """What to say to a client that is there."""
        gone = self._gave_up.get(client)
        if gone is None or client in self._since_us:
            return None
        return GivenUp(gone.since_us, gone.until_us or now_us, gone.events, gone.reason)

    def on_heard(self, client: str, given_up: GivenUp) -> list[GaveUp]:
        """The client knows of it, unless there is more by now."""
        gone = self._gave_up.get(client)
        if gone is None or (gone.since_us, gone.events) != (given_up.since_us, given_up.events):
            return []
        return self.forgive(client)

    def forgive(self, client: str) -> list[GaveUp]:
        return [] if self._gave_up.pop(client, None) is None else [GaveUp(client, 0, 0, 0, "")]
