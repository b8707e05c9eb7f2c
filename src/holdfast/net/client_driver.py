"""The driver of a client: events that the application publishes in a row leave in one message.

The first of them leaves at once, so an event on its own never waits. What is published before the event loop turns
waits in the machine, which puts it together, and leaves when the loop does.
"""

from collections.abc import Mapping, Sequence

from holdfast.model.messages import AttributeValue, NodeKind
from holdfast.net.clock import Clock
from holdfast.net.counters import Counters
from holdfast.net.driver import WAKE, Application, Driver
from holdfast.protocol.effects import Effect
from holdfast.protocol.node import ClientMachine


class ClientDriver(Driver):
    kind: NodeKind = "client"

    def __init__(
        self, machine: ClientMachine, clock: Clock, counters: Counters, application: Application, tallied: bool
    ) -> None:
        super().__init__(machine, clock, counters, application, tallied)
        self._client = machine
        self._waiting = False  # published events wait in the machine

    def publish(
        self, attributes: Mapping[str, AttributeValue], encoded: bytes, payload: bytes, lifetime_us: int | None
    ) -> int:
        """Hand an event to the machine; its sequence number."""
        now_us, later = self._clock.now_us(), bool(self._dirty)
        client = self._client
        effects = client.publish(attributes, payload, lifetime_us, now_us, encoded, not later)
        if effects or not self._waiting:
            self._let_go(effects, later, now_us)
        return client.last_seq

    def publish_many(self, events: Sequence[Mapping[str, AttributeValue]], encoded: Sequence[bytes]) -> None:
        """Hand several events to the machine."""
        now_us, later = self._clock.now_us(), bool(self._dirty)
        effects = self._client.publish_many(events, encoded, now_us)
        if effects or not self._waiting:
            self._let_go(effects, later, now_us)

    def _let_go(self, effects: list[Effect], later: bool, now_us: int) -> None:
        """What was published leaves at once if it is the first of this turn of the event loop, else with the rest."""
        self._waiting = later
        if not effects and not later:
            effects = self._client.handle(WAKE, now_us)
        if effects:
            self._perform(effects, now_us)
            if self._outgoing:
                self._send()
        if not later:  # else that is done when the rest leaves
            self.rearm()

    def flush(self) -> None:
        """Let everything leave that was published, now."""
        if self._waiting:
            self._waiting = False
            self.give(WAKE)

    def _flush(self) -> None:
        self.flush()
        super()._flush()
