"""Messages between brokers that have no link with each other: each arrives after a while, or is lost.

What lies between two brokers of an overlay is the network below it, of which the file says a delay and a loss.
"""

from functools import partial
from random import Random
from typing import TYPE_CHECKING

from holdfast.model.messages import Message
from holdfast.protocol.message_kind import classify
from holdfast.sim.host import Host, Parcel
from holdfast.wire.codec import size_of

if TYPE_CHECKING:
    from holdfast.sim.simulator import Simulation


class UnicastNetwork:
    def __init__(self, simulation: "Simulation") -> None:
        self._simulation = simulation
        self._random = Random(f"{simulation.seed}/unicast").random
        gossip = simulation.network.reliability.gossip
        self._delay_us = 0 if gossip is None else gossip.transfer_delay_us
        self._loss_ratio = 0.0 if gossip is None else gossip.transfer_loss_ratio

    def send(self, sender: Host, to: str, message: Message) -> None:
        kind, flies = classify(message)
        tally, size = sender.tallies[kind], size_of(message)
        tally.sent += 1
        tally.sent_bytes += size
        receiver = self._simulation.hosts.get(to)
        if receiver is None or (self._loss_ratio and self._random() < self._loss_ratio):
            tally.lost += 1
            return
        simulation, parcel = self._simulation, Parcel(sender.name, (message,), kind, flies, size)
        simulation.at(simulation.now_us + self._delay_us, partial(self._arrive, receiver, parcel))

    def _arrive(self, host: Host, parcel: Parcel) -> None:
        if host.up:
            host.tallies[parcel.kind].received += 1
            self._simulation.receive(host, parcel)
