"""The inner loop of every simulation: a message leaves a node for some of its neighbours, over their links.

What a broker only passes on (`Node.passes_on`) is counted as what it came as, so nothing has to be found out again.
"""

from typing import TYPE_CHECKING

from holdfast.model.messages import Deliver, Message
from holdfast.protocol.effects import PassedOn
from holdfast.protocol.message_kind import DELIVER_CONTROL, RECOVERY_KINDS, classify
from holdfast.sim.agenda import Agenda
from holdfast.sim.host import Host, Parcel
from holdfast.sim.keyed_dice import EventLuck
from holdfast.wire.codec import size_of, size_passed_on

if TYPE_CHECKING:
    from holdfast.sim.simulator import Simulation

_DELIVER = Deliver.__name__


class Sending:
    def __init__(self, simulation: "Simulation", agenda: Agenda, watched: bool) -> None:
        """`watched`: bytes are counted by link."""
        self._simulation = simulation
        self._add = agenda.add
        self._watched = watched
        self._lossy_control = simulation.network.lossy_control
        self._luck = EventLuck(simulation.seed).of

    def send(self, host: Host, names: tuple[str, ...], message: Message) -> None:
        self._send(host, names, Parcel(host.name, (message,), *classify(message), size_of(message)))

    def pass_on(self, host: Host, passed: PassedOn, came: Parcel) -> None:
        """The same for what follows from a message with an event, or with what clients say about recovery."""
        name, flies, size, before = host.name, came.flies, came.bytes, came.messages[0]
        for names, message in passed:
            kind = came.kind if type(message) is not Deliver else _DELIVER if flies else DELIVER_CONTROL
            bytes_ = size_passed_on(size, before, message)  # type: ignore[arg-type]
            self._send(host, names, Parcel(name, (message,), kind, flies, bytes_))

    def _send(self, host: Host, names: tuple[str, ...], parcel: Parcel) -> None:
        simulation, channels, watched, add = self._simulation, host.channels, self._watched, self._add
        kind, flies, size, now_us = parcel.kind, parcel.flies, parcel.bytes, simulation.now_us
        is_recovery = not flies and kind in RECOVERY_KINDS
        may_be_lost = flies or is_recovery or self._lossy_control or kind == DELIVER_CONTROL
        luck: int | None = None  # of an event, where a link wants it
        tally = host.tallies[kind]
        tally.sent += len(names)
        tally.sent_bytes += len(names) * size
        together: list[Host] = []  # who gets it at the same time, in the order of names, is one thing to happen
        when_us = -1
        for name in names:
            channel = channels.get(name)
            if channel is None:
                tally.lost += 1
                continue
            if watched:
                channel.event_bytes += size if flies else 0
                channel.recovery_bytes += size if is_recovery else 0
            link = channel.link
            if link.is_sure and link.up:  # every other message is for a client
                arrivals: tuple[int, ...] = (now_us + link.delay_us,)
            else:
                if flies and luck is None:
                    luck = self._luck(parcel.messages[0].publication, now_us)  # type: ignore[union-attr]
                arrivals = link.arrivals_us(size, now_us, may_be_lost, luck)
                if not arrivals:
                    tally.lost += 1
                    continue
            for arrives_us in arrivals:
                simulation.flying += flies
                if arrives_us == when_us:
                    together.append(channel.receiver)
                    continue
                together, when_us = [channel.receiver], arrives_us
                add(arrives_us, together, parcel)
