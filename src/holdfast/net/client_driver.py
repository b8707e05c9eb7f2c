"""The driver of a client: events that the application publishes in a row leave in one message.

The first of them leaves at once, so an event on its own never waits. What is published before the event loop turns
waits in the machine, which puts it together, and leaves when the loop does.
"""

from collections.abc import Mapping

from msgspec import Raw

from holdfast.model.messages import NodeKind, Scalar
from holdfast.net.clock import Clock
from holdfast.net.counters import Counters
from holdfast.net.driver import WAKE, Application, Driver
from holdfast.protocol.node import ClientMachine


class ClientDriver(Driver):
    kind: NodeKind = "client"

    def __init__(
        self, machine: ClientMachine, clock: Clock, counters: Counters, application: Application, tallied: bool
    ) -> None:
        super().__init__(machine, clock, counters, application, tallied)
        self._client = machine
        self._waiting = False  # published events wait in the machine

    def publish(self, attributes: Mapping[str, Scalar], encoded: Raw, payload: bytes, lifetime_us: int | None) -> int:
        """Hand an event to the machine; its sequence number."""
        now_us = self._clock.now_us()
        effects = self._client.publish(attributes, payload, lifetime_us, now_us, encoded)
        if effects:
            self._perform(effects, now_us)
            self._send()
            self.rearm()
        if effects or self._dirty:
            self._waiting = True
        else:
            self.give(WAKE)
        return self._client.last_seq

    def flush(self) -> None:
        """Let everything leave that was published, now."""
        if self._waiting:
            self._waiting = False
            self.give(WAKE)

    def _flush(self) -> None:
        self.flush()
        super()._flush()
