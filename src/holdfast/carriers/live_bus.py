"""The bus of a network file in a live run: its server as the run's one host, and the clients that ride on it.

A server that the run has started can be killed, stopped and continued like a broker. One that was there already is
somebody else's, and nothing is done to it.
"""

import asyncio
import signal
from pathlib import Path
from random import Random
from typing import Any

from holdfast.carriers.addresses import BusAddress, bus_address, carrier_of
from holdfast.carriers.client import BusClient
from holdfast.carriers.impaired import ImpairedCarrier, Ways
from holdfast.carriers.servers import BusServer, server_of
from holdfast.model.errors import InputError, TransportError
from holdfast.net.address import Address
from holdfast.net.client import Client
from holdfast.net.member import OnGone
from holdfast.net.participant import ClientParts
from holdfast.network.schema import LinkSpec, Network
from holdfast.network.settings import BUS, CarrierSettings

_OF_SERVERS = frozenset(("crash", "restart", "hang", "resume"))
_LOOK_S = 0.5  # between looks whether the server still runs


def check_faults(network: Network, carrier: CarrierSettings) -> None:
    """An InputError for faults of a server that is not ours: a trace would tell of a crash that never was."""
    kinds = [each.kind for each in network.faults if each.kind in _OF_SERVERS]
    if carrier.address is not None and kinds:
        raise InputError(
            f"fault: {kinds[0]} of the bus at {bus_address(carrier.address)}, which was there before this run; "
            "without carrier.address a server of its own is started, and --set fault=[] leaves out all faults"
        )


class BusHost:
    """A bus as a run sees a broker (`net.member.MemberHandle`); `folder` is for what its server writes."""

    def __init__(self, carrier: CarrierSettings, folder: Path) -> None:
        self.name = BUS
        self.on_gone: OnGone = lambda name: None
        self.on_released: OnGone = lambda name: None
        self._address = carrier.address
        self._server: BusServer | None = None
        if carrier.address is None:
            self._server = server_of(carrier.bus, folder / "server")
        else:
            carrier_of(bus_address(carrier.address))
        self._watching: asyncio.Task[None] | None = None

    async def start(self, listen: Address) -> BusAddress:
        if self._server is None:
            return bus_address(str(self._address))
        await asyncio.to_thread(self._server.start)
        self._watching = asyncio.create_task(self._watch(self._server))
        return bus_address(self._server.address)

    async def _watch(self, server: BusServer) -> None:
        while server.process is not None and server.process.poll() is None:
            await asyncio.sleep(_LOOK_S)
        self.on_gone(self.name)

    async def crash(self) -> None:
        await asyncio.to_thread(self._own("killed").kill)
        self._unwatch()

    async def hang(self) -> None:
        self._own("stopped").signal(signal.SIGSTOP)

    async def resume(self) -> None:
        self._own("continued").signal(signal.SIGCONT)

    def _own(self, what: str) -> BusServer:
        if self._server is None:
            raise TransportError(f"the bus at {self._address} is not {what}: it was there before this run")
        return self._server

    async def stop(self) -> None:
        self._unwatch()
        if self._server is not None:
            self._server.signal(signal.SIGCONT)
            await asyncio.to_thread(self._server.kill)

    def _unwatch(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    async def answers(self) -> bool:
        return True  # it is not replaced by anybody

    def status(self) -> dict[str, Any] | None:
        return None

    async def link(self, spec: LinkSpec, far: str, address: Address | None) -> None: ...
    async def unlink(self, far: str) -> None: ...
    async def set_link(self, far: str, up: bool) -> None: ...
    async def connected(self, far: str) -> None: ...


def new_bus_client(network: Network, seed: int, address: Address, parts: ClientParts) -> Client:
    """A client of the file, with what its ways to the bus do to messages."""
    carrier = network.carrier
    assert carrier is not None and isinstance(address, BusAddress)
    ways = Ways(
        carrier.up_loss_ratio,
        carrier.up_delay_us / 1e6,
        carrier.down_loss_ratio,
        carrier.down_delay_us / 1e6,
        carrier.takes_per_s,
    )
    dice = Random(f"{seed}/{parts.name}/bus")
    return BusClient(
        [address],
        parts.name,
        network.protocol,
        network.reliability.guarantees,
        carrier.space,
        carrier.template,
        carrier.body,
        lambda where: ImpairedCarrier(carrier_of(where)(), ways, dice),
        clock=parts.clock,
        first_seq=1,
        observer=parts.observer,
        tallied=True,
    )
