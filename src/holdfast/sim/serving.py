"""Brokers that take their time: messages wait in a queue and are served one after the other."""

from random import Random
from typing import TYPE_CHECKING

from holdfast.network.schema import BrokerSpec
from holdfast.protocol.effects import Incident, Received
from holdfast.protocol.message_kind import classify
from holdfast.sim.host import Host, Parcel

if TYPE_CHECKING:
    from holdfast.sim.simulator import Simulation


class Serving:
    def __init__(self, simulation: "Simulation") -> None:
        self._simulation = simulation
        self._specs: dict[str, BrokerSpec] = {}
        self._dice: dict[str, Random] = {}

    def add(self, spec: BrokerSpec) -> None:
        self._specs[spec.id] = spec
        self._dice[spec.id] = Random(f"{self._simulation.seed}/{spec.id}/service")

    def places(self, host: Host) -> int:
        """How many messages may be here at a time: those that wait, and the one being served."""
        return self._specs[host.name].queue_max + 1

    def on_message(self, host: Host, parcel: Parcel) -> None:
        """It is served at once, waits, or finds no place."""
        if host.busy and len(host.waiting) >= self._specs[host.name].queue_max:
            self._simulation.flying -= parcel.flies
            self._simulation.note(host.name, Incident("queue_full", parcel.sender))
            return
        host.waiting.append((parcel.sender, parcel.messages[0]))
        if not host.busy:
            self._serve(host)

    def time_us(self, host: Host) -> int:
        """How long the first message in the queue takes."""
        spec = self._specs[host.name]
        if spec.service == "exponential":
            return max(1, int(self._dice[host.name].expovariate(1 / spec.service_us)))
        return spec.service_us

    def finish(self, host: Host) -> None:
        """The first message has been served: go on with the next."""
        host.busy = False
        if host.waiting:
            self._serve(host)

    def _serve(self, host: Host) -> None:
        host.busy = True
        incarnation = host.incarnation
        self._simulation.at(self._simulation.now_us + self.time_us(host), lambda: self._served(host, incarnation))

    def _served(self, host: Host, incarnation: int) -> None:
        if host.held is not None:
            host.busy = False  # it hangs, and serves this message again when it goes on
        elif incarnation == host.incarnation:  # or it has crashed meanwhile
            sender, message = host.waiting.popleft()
            self._simulation.flying -= classify(message)[1]
            self._simulation.give(host, Received(sender, message))
            self.finish(host)
