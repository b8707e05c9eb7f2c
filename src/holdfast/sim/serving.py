"""Brokers that take their time: messages wait in a queue, and one or several servers handle them.

With several servers, as in brokers that match in parallel, a message that takes long is overtaken by those behind it.
"""

from random import Random
from typing import TYPE_CHECKING

from holdfast.model.messages import Message
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
        """How many messages may be here at a time: those that wait, and those being served."""
        spec = self._specs[host.name]
        return spec.queue_max + spec.servers

    def on_message(self, host: Host, parcel: Parcel) -> None:
        """It is served at once, waits, or finds no place."""
        spec = self._specs[host.name]
        if host.busy == spec.servers and len(host.waiting) >= spec.queue_max:
            self._simulation.flying -= parcel.flies
            self._simulation.note(host.name, Incident("queue_full", parcel.sender))
            return
        host.waiting.append((parcel.sender, parcel.messages[0]))
        self.go_on(host)

    def time_us(self, host: Host, message: Message) -> int:
        """How long a message takes."""
        spec = self._specs[host.name]
        if spec.service == "exponential":
            return max(1, int(self._dice[host.name].expovariate(1 / spec.service_us)))
        return spec.service_us

    def go_on(self, host: Host) -> None:
        """Every server that is free takes a message."""
        while host.waiting and host.busy < self._specs[host.name].servers:
            self._serve(host)

    def finish(self, host: Host) -> None:
        """A server is free again."""
        host.busy -= 1
        self.go_on(host)

    def _serve(self, host: Host) -> None:
        one = host.waiting.popleft()
        host.served.append(one)
        host.busy += 1
        incarnation, simulation = host.incarnation, self._simulation
        simulation.at(simulation.now_us + self.time_us(host, one[1]), lambda: self._served(host, one, incarnation))

    def _served(self, host: Host, one: tuple[str, Message], incarnation: int) -> None:
        if incarnation != host.incarnation:
            return  # it has crashed meanwhile
        host.served.remove(one)
        if host.held is not None:  # it hangs, and serves this message again when it goes on
            host.waiting.appendleft(one)
            host.busy -= 1
            return
        sender, message = one
        self._simulation.flying -= classify(message)[1]
        self._simulation.give(host, Received(sender, message))
        self.finish(host)
