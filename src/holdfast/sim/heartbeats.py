"""Heartbeats over links that leave nothing to chance: nearly all messages of a network with many clients.

Most of them only say that somebody is there. So a node is asked first whether it hears no more than that in one
(`Node.hears`), and whether its timer sends nothing else (`Node.beat`): then nothing has to be looked at afterwards.
They are counted, and take their turns, like all messages.
"""

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.model.messages import Heartbeat, Message
from holdfast.protocol.effects import Input, Wake
from holdfast.sim.agenda import Agenda
from holdfast.sim.host import Host, Parcel
from holdfast.wire.codec import FRAME_BYTES, encode_message, size_of

_KIND = Heartbeat.__name__
WAKE = Wake()


class Heartbeats:
    def __init__(
        self,
        agenda: Agenda,
        give: Callable[[Host, Input], None],
        send: Callable[[Host, tuple[str, ...], Message], None],
        arrive: Callable[[Sequence[Host], Parcel], None],
        rearm: Callable[[Host], None],
    ) -> None:
        """What the simulator does with any input, message to be sent, message that arrives, and timer."""
        self._agenda = agenda
        self._give, self._send, self._arrive, self._rearm = give, send, arrive, rearm

    def send(self, host: Host, to: str, heartbeat: Heartbeat, now_us: int) -> None:
        channel = host.channels.get(to)
        if channel is None or not channel.link.is_sure or not channel.link.up:
            self._send(host, (to,), heartbeat)
            return
        tally = host.tallies[_KIND]
        tally.sent += 1
        tally.sent_bytes += FRAME_BYTES + len(encode_message(heartbeat))
        self._agenda.add_to_run(now_us + channel.link.delay_us, channel.receiver, (host.name, heartbeat))

    def go_through(self, hosts: list[Host], whats: list[Any], now_us: int) -> None:
        """Timers of nodes, and heartbeats for nodes with the names of their senders, as they stand in the agenda."""
        for host, what in zip(hosts, whats, strict=True):
            if type(what) is tuple:
                sender, heartbeat = what
                alone = host.up and not host.has_service_time and sender in host.channels
                if alone and host.machine.hears(sender, heartbeat, now_us):
                    host.tallies[_KIND].received += 1
                else:
                    self._arrive((host,), Parcel(sender, (heartbeat,), _KIND, False, size_of(heartbeat)))
            elif host.wake_us == what:
                host.wake_us = -1
                beat = host.machine.beat(now_us) if host.up else None
                if beat is None:
                    self._give(host, WAKE)
                else:
                    self.send(host, *beat, now_us)
                    self._rearm(host)
