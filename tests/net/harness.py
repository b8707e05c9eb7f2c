"""Brokers and clients over loopback in one process.

Ports are chosen by the system, and whatever was started is stopped.
"""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from itertools import count
from typing import Any, ParamSpec
from unittest.mock import patch

from holdfast.carriers.connecting import connect
from holdfast.model.messages import Publication
from holdfast.net.address import Address, parse_address
from holdfast.net.client import Client
from holdfast.net.clock import Clock
from holdfast.net.event_loop import run
from holdfast.net.free_ports import free_ports
from holdfast.net.node import BrokerNode
from holdfast.net.settings import NodeSettings
from holdfast.net.subscription import Delivery, Subscription
from holdfast.protocol.effects import Delivered, DeliveredBatch, Incident
from holdfast.protocol.settings import ProtocolSettings

PATIENCE_S = 60.0  # a machine under load is slow; a test that waits this long has failed
QUICK = ProtocolSettings(heartbeat_us=100_000, lease_us=1_000_000)  # so that healing does not take seconds

P = ParamSpec("P")


def live(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that runs in an event loop and may not hang."""

    @functools.wraps(test)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        async def main() -> None:
            async with asyncio.timeout(PATIENCE_S):
                await test(*args, **kwargs)

        run(main())

    return wrapped


class Lab:
    """Starts brokers and clients, and stops them in the end."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    async def broker(
        self, name: str, listen: str | Address | tuple[str, ...] = "tcp://127.0.0.1:0", **settings: Any
    ) -> BrokerNode:
        given = listen if isinstance(listen, tuple) else (listen,)
        addresses = tuple([_ours(parse_address(each) if isinstance(each, str) else each) for each in given])
        recorder, log = settings.pop("recorder", None), settings.pop("log", None)
        clock = settings.pop("clock", None)
        settings.setdefault("protocol", QUICK)
        node = BrokerNode(NodeSettings(name, addresses, **settings), recorder, log, clock)
        await node.start()
        self._stack.push_async_callback(node.stop, 0.1)
        return node

    async def client(self, *brokers: BrokerNode | Address, name: str | None = None, **settings: Any) -> Client:
        settings.setdefault("settings", QUICK)
        addresses = [each.listening[0] if isinstance(each, BrokerNode) else each for each in brokers]
        clock = settings.pop("clock", None) or Clock()
        with patch("holdfast.net.client.Clock", lambda: clock):
            client = connect([*map(str, addresses)], name=name, **settings)
        await client.__aenter__()
        self._stack.push_async_callback(client.close, in_haste=True)  # nobody waits for its last events any more
        return client

    async def pair(self, scheme: str = "tcp", **settings: Any) -> tuple[BrokerNode, BrokerNode]:
        """Two brokers with a link between them."""
        b1 = await self.broker("b1", f"{scheme}://127.0.0.1:0", **settings)
        b2 = await self.broker("b2", f"{scheme}://127.0.0.1:0", peers={"b1": b1.listening[0]}, **settings)
        await b1.connected_to("b2")
        await b2.connected_to("b1")
        return b1, b2


def _ours(address: Address) -> Address:
    """With a port that is kept for us: a broker that was stopped may be started there again."""
    return address if address.port else replace(address, port=free_ports())


@asynccontextmanager
async def lab() -> AsyncIterator[Lab]:
    async with AsyncExitStack() as stack:
        yield Lab(stack)


class Recorder:
    """Keeps what a node is told to hand out."""

    def __init__(self) -> None:
        self.incidents: list[Incident] = []

    def on_published(self, publication: Publication, now_us: int) -> None: ...
    def on_delivered(self, delivered: Delivered, now_us: int) -> None: ...
    def on_delivered_batch(self, delivered: DeliveredBatch, now_us: int) -> None: ...

    def on_incident(self, incident: Incident, now_us: int) -> None:
        self.incidents.append(incident)


_probes = count()


async def settled(subscriber: Client, *publishers: Client) -> None:
    """Wait until what the client has subscribed to is known at the publishers' brokers.

    Tables are told in order, so when an event for a later subscription arrives, all before it are known.
    """
    probe = f"probe-{next(_probes)}"
    subscription = subscriber.subscribe(f"probe = '{probe}'")
    for publisher in publishers:
        while True:
            await publisher.publish({"probe": probe})
            try:
                async with asyncio.timeout(0.05):
                    while (await anext(subscription)).source != publisher.name:
                        pass
                    break
            except TimeoutError:
                continue
    subscription.close()


async def take(subscription: Subscription, number: int) -> list[Delivery]:
    return [await anext(subscription) for _ in range(number)]


def values(deliveries: Iterable[Delivery], name: str = "n") -> list[Any]:
    return [each.event[name] for each in deliveries]


async def until(true: Callable[[], object]) -> None:
    """For what nobody tells us of: look again until it is so."""
    while not true():
        await asyncio.sleep(0.005)


async def fails(doing: Awaitable[object], kind: type[Exception]) -> str:
    """The message of the error that this raises."""
    try:
        await doing
    except kind as problem:
        return str(problem)
    raise AssertionError(f"no {kind.__name__}")
