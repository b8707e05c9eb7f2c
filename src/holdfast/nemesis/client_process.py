"""One client as a process of its own: it publishes its part of the workload, reads its subscriptions, writes it down.

An event's payload is its name: who published it, in which life of the process, and the how-many-th it was. The judge
knows events by that name and not by the numbers that the product gives them. The line of an event is written before it
is published and another one behind it; a delivery is written before the next one is asked for.
"""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from holdfast.carriers.addresses import bus_address
from holdfast.carriers.client import BusClient
from holdfast.model.errors import MisuseError, TimedOutError, TransportError
from holdfast.nemesis.journal import JournalWriter, fingerprint, now_us
from holdfast.nemesis.node_process import Command, Commands, SteppedClock
from holdfast.net.address import parse_address
from holdfast.net.client import Client
from holdfast.net.event_loop import run as run_loop
from holdfast.net.losses import Loss
from holdfast.net.states import StateChange
from holdfast.net.subscription import Delivery, Subscription
from holdfast.net.tls import TlsFiles
from holdfast.network.load import load
from holdfast.network.schema import Network
from holdfast.network.workload.publication import ScheduledEvent

FLUSH_S = 0.25  # between two flushes: what was published before the last one is known to be at the broker
_LATE_US = 2_000_000  # an event that is further behind its time is left out: a stopped publisher does not catch up
_BATCH = 256  # deliveries read at once, and written down with one system call
_QUEUE_MAX = 2_000  # deliveries that wait for a slow reader: few, so that it does overflow
_AGAIN_S = 0.2  # until a broker that did not answer is dialled again
_CLOSE_S = 10.0  # for the last events to be confirmed


@dataclass(frozen=True)
class ClientPlan:
    name: str
    life: int  # 0, and one more for each process under this name
    file: str  # the network file,
    settings: dict[str, Any]  # and what is changed in it
    seed: int
    journal: Path
    address: str
    zero_us: int  # when the run began
    stop_us: int  # when publishing ends
    offset_us: int = 0  # of its clock
    subscriptions: dict[str, str] = field(default_factory=dict)  # a key, and the condition


class WorkloadPace:
    """A client's part of the workload, each event when its time has come, or at once while a burst lasts."""

    def __init__(self, network: Network, plan: ClientPlan) -> None:
        self._network = network
        self._plan = plan
        self.burst = 0  # events that are not to wait for their time

    async def events(self) -> AsyncIterator[ScheduledEvent]:
        """From now on, and until the run stops."""
        for planned in self._network.publications(self._plan.seed):
            at_us = self._plan.zero_us + planned.at_us
            if planned.client != self._plan.name or at_us <= now_us() - _LATE_US:
                continue
            if at_us > self._plan.stop_us:
                return
            if at_us > now_us() and self.burst <= 0:
                await asyncio.sleep((at_us - now_us()) / 1e6)
            self.burst -= 1 if self.burst > 0 else 0
            yield planned


class _Process:
    def __init__(self, plan: ClientPlan, commands: Commands) -> None:
        self._plan = plan
        self._commands = commands
        self._journal = JournalWriter(plan.journal)
        self._clock = SteppedClock(plan.offset_us)
        self._network = load(plan.file, plan.settings)
        self._client: Client
        self._subscriptions: dict[str, Subscription] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._published = 0
        self._flushed = 0
        self._slow_until_us = 0
        self._pace = WorkloadPace(self._network, plan)

    async def run(self) -> None:
        self._journal.write("begin", node=self._plan.name, life=self._plan.life)
        self._client = await self._connect()
        self._client.on_state(self._on_state)
        self._tasks["losses"] = asyncio.create_task(self._read_losses())
        for key, condition in self._plan.subscriptions.items():
            self._subscribe(key, condition)
        spec = next((each for each in self._network.clients if each.id == self._plan.name), None)
        for condition in () if spec is None else spec.advertisements:
            self._client.advertise(condition)
        await self._confirm(list(self._subscriptions))
        if spec is not None and spec.publishes:
            self._tasks["publish"] = asyncio.create_task(self._publish())
            self._tasks["flush"] = asyncio.create_task(self._keep_flushing())
        self._commands.answer(ready=True)
        await self._commands.obey(self._do)

    async def _connect(self) -> Client:
        """Until a broker takes it: it may be down, or not yet know that the process before this one is dead."""
        while True:
            try:
                return await _new_client(self._plan, self._network, self._clock).__aenter__()
            except TransportError as problem:
                self._journal.write("refused", text=str(problem))
                await asyncio.sleep(_AGAIN_S)

    # Publishing ----------------------------------------------------------------------------------

    async def _publish(self) -> None:
        async for planned in self._pace.events():
            await self._publish_one(planned)

    async def _publish_one(self, planned: ScheduledEvent) -> None:
        self._published += 1
        id_ = f"{self._plan.name}/{self._plan.life}/{self._published}"
        event = planned.attributes
        self._journal.write("pub", id=id_, event=event, print=fingerprint(event))
        seq = await self._client.publish(event, id_.encode().ljust(planned.payload_bytes))
        self._journal.write("sent", id=id_, seq=seq)

    async def _keep_flushing(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S)
            if self._published > self._flushed:
                await self._flush(None)

    async def _flush(self, timeout: float | None) -> None:
        upto = self._published
        try:
            await self._client.flush(timeout=timeout)
        except TimedOutError:
            return
        except TransportError as problem:  # the broker that is gone may not have passed on what it had confirmed
            self._doubt(upto, problem)
        else:
            self._journal.write("flushed", upto=upto)
        self._flushed = max(self._flushed, upto)

    def _doubt(self, upto: int, problem: Exception) -> None:
        """We were told that what is not flushed may be lost."""
        if upto > self._flushed:
            self._journal.write("unflushed", first=self._flushed + 1, last=upto, text=str(problem))

    # Subscribing ---------------------------------------------------------------------------------

    def _subscribe(self, key: str, condition: str) -> None:
        self._journal.write("sub", sub=key, condition=condition)
        subscription = self._subscriptions[key] = self._client.subscribe(condition, queue_max=_QUEUE_MAX)
        self._tasks[key] = asyncio.create_task(self._read(key, subscription))

    async def _confirm(self, keys: list[str]) -> None:
        """Until the broker knows these subscriptions."""
        while True:
            with suppress(TransportError):
                await self._client.flush()
                break
        for key in keys:
            self._journal.write("subscribed", sub=key)

    async def _read(self, key: str, subscription: Subscription) -> None:
        while deliveries := await subscription.batch(1 if self._is_slow else _BATCH):
            at_us = now_us()
            self._journal.write_all([_line(key, each, at_us) for each in deliveries])
            if self._is_slow:
                await asyncio.sleep(0.02)  # fifty a second: slower than the workload

    @property
    def _is_slow(self) -> bool:
        return now_us() < self._slow_until_us

    async def _read_losses(self) -> None:
        async for loss in self._client.losses():
            self._journal.write("lost", **self._named(loss))

    def _named(self, loss: Loss) -> dict[str, Any]:
        """A loss with its times by the clock that all processes share."""
        ahead_us = self._clock.now_us() - now_us()
        times = {name: getattr(loss, name) for name in ("since_us", "until_us")}
        shared = {name: value - ahead_us if value else 0 for name, value in times.items()}
        plain = {name: getattr(loss, name) for name in ("source", "first", "last", "events", "reason")}
        return plain | shared

    def _on_state(self, change: StateChange) -> None:
        self._journal.write("state", state=change.state, reason=change.reason, resumed=change.resumed)

    # What it is told -----------------------------------------------------------------------------

    async def _do(self, command: Command) -> None:
        match command["do"]:
            case "subscribe":
                self._subscribe(command["sub"], command["condition"])
                await self._confirm([command["sub"]])
            case "unsubscribe":
                self._journal.write("unsub", sub=command["sub"])
                self._subscriptions.pop(command["sub"]).close()
            case "burst":
                self._pace.burst += command["events"]
            case "slow":
                self._slow_until_us = now_us() + command["for_us"]
            case "detach":
                await self._client.detach()
            case "attach":
                await self._client.attach()
            case "stop publishing":
                await self._stop_publishing()
                self._commands.answer(stopped=True)
            case "state":
                self._commands.answer(settled=self._settled())
            case "close":
                await self._close(command.get("in_haste", False))

    async def _stop_publishing(self) -> None:
        for name in ("publish", "flush"):
            if name in self._tasks:
                self._tasks.pop(name).cancel()
        if self._published > self._flushed:
            await self._flush(_CLOSE_S)

    def _settled(self) -> bool:
        accounts = [each.account() for each in self._subscriptions.values()]
        owing = any(not each.attached or each.missing or each.held or each.waiting for each in accounts)
        return self._client.recovered and not owing

    async def _close(self, in_haste: bool) -> None:
        """Leave as an application does, or, when the run is over, without waiting for anybody."""
        await self._stop_publishing()
        for key, subscription in self._subscriptions.items():
            account = subscription.account()
            missing = [[each.source, each.first, each.last] for each in account.missing]
            self._journal.write("account", sub=key, missing=missing, held=account.held, dropped=account.dropped)
        with suppress(MisuseError):
            try:
                await self._client.close(in_haste, timeout=_CLOSE_S)
            except TransportError as problem:
                self._doubt(self._published, problem)
        self._journal.write("end")


def _line(key: str, each: Delivery, at_us: int) -> dict[str, Any]:
    id_ = each.payload.decode(errors="replace").rstrip()
    printed = fingerprint(dict(each.publication.attributes))
    return {"k": "got", "t": at_us, "sub": key, "id": id_, "print": printed, "via": each.via}


def _new_client(plan: ClientPlan, network: Network, clock: SteppedClock) -> Client:
    transport, carrier = network.transport, network.carrier
    if carrier is not None:
        return BusClient(
            [bus_address(plan.address)],
            plan.name,
            network.protocol,
            network.reliability.guarantees,
            carrier.space,
            carrier.template,
            carrier.body,
            clock=clock,
        )
    return Client(
        [parse_address(plan.address)],
        plan.name,
        TlsFiles(transport.certificate, transport.key, transport.ca),
        network.protocol,
        clock=clock,
        guarantees=network.reliability.guarantees,
        hops=network.reliability.hops,
    )


def run(plan: ClientPlan, pipe: Connection) -> None:
    """What the process does; the nemesis starts it, and stops it: Ctrl-C is meant for the nemesis."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    run_loop(_serve(plan, pipe))


async def _serve(plan: ClientPlan, pipe: Connection) -> None:
    await _Process(plan, Commands(pipe)).run()
