"""Somebody else's server in the place of a broker, and a keeper beside it: processes to be killed like all others."""

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from holdfast.carriers.connecting import keeper_of
from holdfast.carriers.servers import BusServer, server_of
from holdfast.model.errors import InputError, TransportError
from holdfast.nemesis.node_process import Command, Commands
from holdfast.nemesis.proxy import Place
from holdfast.net.event_loop import run as run_loop
from holdfast.network.settings import CarrierSettings

_AGAIN_S = 0.2  # until a bus that did not answer is dialled again
_KEEP_BYTES = 256 * 2**20  # more than a run publishes


class BusProcess:
    """The server, as the arena sees a process of its own."""

    def __init__(self, name: str, carrier: CarrierSettings, folder: Path) -> None:
        if carrier.address is not None:
            raise InputError("carrier.address: the nemesis kills the server, and takes none that others may use")
        self.name = name
        self.life = -1
        self.offset_us = 0  # nobody sets the clock of a server of others
        self.place: Place | None = None
        self.for_clients: Place | None = None
        self._server: BusServer = server_of(carrier.bus, folder)

    @property
    def running(self) -> bool:
        return self._server.process is not None and self._server.process.poll() is None

    async def start(self) -> None:
        """A TransportError when it does not come up."""
        self.life += 1
        await asyncio.to_thread(self._server.start)
        parts = urlsplit(self._server.address)
        self.place = self.for_clients = (parts.hostname or "", parts.port or 0)

    def signal(self, number: int) -> None:
        self._server.signal(number)

    def tell(self, **command: Any) -> None:
        """It obeys nobody; whoever closes the arena kills it."""
        if command["do"] == "close":
            self._server.signal(signal.SIGKILL)

    async def ended(self, timeout_s: float) -> None:
        await asyncio.to_thread(self._server.kill)


def scheme_of(carrier: CarrierSettings) -> str:
    """Of the addresses of its servers."""
    return "amqp" if carrier.bus == "rabbitmq" else carrier.bus


@dataclass(frozen=True)
class KeeperPlan:
    address: str
    carrier: CarrierSettings
    store: Path


def run_keeper(plan: KeeperPlan, pipe: Connection) -> None:
    """What the process of a keeper does, until it is killed or told to close."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(TransportError):  # the bus went away while it closed
        run_loop(_keep(plan, pipe))
    os._exit(0)  # a thread of a client's library may hang in a bus that is gone


async def _keep(plan: KeeperPlan, pipe: Connection) -> None:
    commands, carrier = Commands(pipe), plan.carrier
    bus = carrier.space, carrier.lanes or "", carrier.body
    while True:
        keeper = keeper_of(plan.address, "TRUE", plan.store, _KEEP_BYTES, *bus)
        try:
            await keeper.start()
            break
        except TransportError:
            await keeper.stop()
            await asyncio.sleep(_AGAIN_S)
    commands.answer(ready=True)

    async def do(command: Command) -> None:
        if command["do"] == "close":
            await keeper.stop()

    await commands.obey(do)
