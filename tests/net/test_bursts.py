"""A burst with reliability on arrives whole, once and in order, also where hundreds of conditions pick from it."""

import asyncio
from random import Random
from typing import Any

import pytest

from holdfast.net.client import Client
from tests.net.harness import lab, live, settled

SYMBOLS = 100


def stocks(count: int) -> list[dict[str, Any]]:
    rng = Random(7)
    pool = [{"symbol": f"S{rng.randrange(SYMBOLS):02}", "price": round(rng.uniform(1, 500), 2)} for _ in range(2_048)]
    return [pool[at % len(pool)] for at in range(count)]


def wishes(seed: int) -> list[tuple[str, float]]:
    """Symbols, and prices below which they are wanted."""
    rng = Random(seed)
    return [(f"S{rng.randrange(SYMBOLS):02}", round(rng.uniform(1, 500), 2)) for _ in range(250)]


async def collect(client: Client, wanted: list[tuple[str, float]], owed: list[list[int]]) -> list[list[int]]:
    """What each of these subscriptions brings, until as much has come as is owed."""
    subscriptions = [
        client.subscribe(f"symbol = '{symbol}' AND price < {price}", queue_max=10**6) for symbol, price in wanted
    ]
    came: list[list[int]] = [[] for _ in wanted]

    async def read(at: int) -> None:
        while len(came[at]) < len(owed[at]):
            came[at] += [each.event["n"] for each in await subscriptions[at].batch(10_000)]

    await asyncio.gather(*map(read, range(len(wanted))))
    return came


async def burst(count: int, order: str) -> None:
    events = stocks(count)
    async with lab() as net:
        broker = await net.broker("b1")
        publisher = await net.client(broker, name="feed", recovery=True)
        readers = []
        for seed in range(4):
            client = await net.client(broker, recovery=True, order=order)
            wanted = wishes(seed)
            owed = [
                [n for n, event in enumerate(events) if event["symbol"] == symbol and event["price"] < price]
                for symbol, price in wanted
            ]
            readers.append((client, owed, asyncio.create_task(collect(client, wanted, owed))))
            await asyncio.sleep(0)  # it subscribes
            await settled(client, publisher)
        for n, event in enumerate(events):
            await publisher.publish({**event, "n": n})
        for client, owed, reading in readers:
            assert await reading == owed
            assert not client.losses()


@pytest.mark.parametrize("order", ["none", "fifo", "strict"])
@live
async def test_a_burst_to_a_thousand_conditions_arrives_whole_and_in_order(order: str) -> None:
    await burst(4_000, order)


@pytest.mark.slow
@live
async def test_a_burst_of_forty_thousand_to_a_thousand_conditions_arrives_whole_and_in_order() -> None:
    await burst(40_000, "strict")
