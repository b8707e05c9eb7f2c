"""Recovery and order over real sockets, where links lose one message in twenty and a helper is killed."""

import asyncio
import subprocess
import sys

import pytest

from holdfast.protocol.recovery.srm.settings import SrmSettings
from tests.net.harness import PATIENCE_S, lab, live, settled, take, values
from tests.net.test_impairment import impaired

NUMBER = 400
# Rings that keep everything, and distances of a loopback: whether they adapt is looked at in simulations.
_FAST = {"kept_min": 300, "kept_first": 300, "soft_state_us": 100_000, "distance_us": 20_000}
SUBSCRIBERS_REPAIR = SrmSettings(**_FAST)

CACHE = f"""
import asyncio
from holdfast.carriers.connecting import connect
from holdfast.protocol.recovery.srm.settings import SrmSettings

async def main():
    settings = SrmSettings(**{_FAST})
    async with connect(ADDRESS, name=NAME, recovery=settings) as client:
        subscription = client.subscribe("n >= 0")
        print("ready", flush=True)
        async for each in subscription:
            print(each.event["n"], flush=True)

asyncio.run(asyncio.wait_for(main(), {PATIENCE_S}))
"""


@live
async def test_what_a_link_loses_is_recovered_and_comes_in_order() -> None:
    async with lab() as net:
        b1 = await net.broker("b1", **impaired(delay_us=2_000, jitter_us=1_000, loss_ratio=0.05))
        b2 = await net.broker("b2", peers={"b1": b1.listening[0]})
        publisher = await net.client(b1, recovery=True)
        subscriber = await net.client(b2, recovery=True, order="strict")
        wanted = subscriber.subscribe("n >= 0", queue_max=NUMBER)
        await settled(subscriber, publisher)
        for n in range(NUMBER):
            await publisher.publish({"n": n})
        deliveries = await take(wanted, NUMBER)
        assert values(deliveries) == list(range(NUMBER))
        assert b1.counters.lost > 0
        assert any(each.via == "repair" for each in deliveries)


@live
async def test_recovery_goes_on_when_a_subscriber_that_repairs_is_killed() -> None:
    """Publishers do not repair here. Two subscribers beside this one keep what it sends; one is killed half-way."""
    async with lab() as net:
        b1 = await net.broker("b1", **impaired(delay_us=2_000, loss_ratio=0.05))
        b2 = await net.broker("b2", peers={"b1": b1.listening[0]})
        caches = [_cache(str(b1.listening[0]), name) for name in ("near", "nearer")]
        try:
            for each in caches:
                assert await asyncio.to_thread(each.stdout.readline) == "ready\n"  # type: ignore[union-attr]
            publisher = await net.client(b1, recovery=SUBSCRIBERS_REPAIR)
            subscriber = await net.client(b2, recovery=SUBSCRIBERS_REPAIR)
            wanted = subscriber.subscribe("n >= 0", queue_max=NUMBER)
            await settled(subscriber, publisher)
            for n in range(NUMBER // 2):
                await publisher.publish({"n": n})
            first = await take(wanted, NUMBER // 2)
            caches[0].kill()
            for n in range(NUMBER // 2, NUMBER):
                await publisher.publish({"n": n})
            second = await take(wanted, NUMBER // 2)
        finally:
            for each in caches:
                each.kill()
                each.communicate()
        for number, half in enumerate((first, second)):
            assert sorted(values(half)) == list(range(number * NUMBER // 2, (number + 1) * NUMBER // 2))
            assert any(each.via == "repair" for each in half)


def _cache(address: str, name: str) -> "subprocess.Popen[str]":
    script = CACHE.replace("ADDRESS", repr(address)).replace("NAME", repr(name))
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
@live
async def test_events_as_large_as_datagrams_allow_are_recovered_with_all_that_is_added_to_them() -> None:
    """The largest event, in a repair for several, with a record of those before it."""
    number, payload = 12, bytes(59_980)
    async with lab() as net:
        b1 = await net.broker("b1", "udp://127.0.0.1:0", **impaired(delay_us=0, loss_ratio=0.3), lossy_control=False)
        b2 = await net.broker("b2", "udp://127.0.0.1:0", peers={"b1": b1.listening[0]})
        publisher = await net.client(b1, recovery=True)
        subscribers = [await net.client(b2, recovery=True, order="strict") for _ in range(2)]
        wanted = [each.subscribe("n >= 0") for each in subscribers]
        for each in subscribers:
            await settled(each, publisher)
        for n in range(number):
            await publisher.publish({"n": n}, payload)
        for each in wanted:
            assert values(await take(each, number)) == list(range(number))
        assert b1.counters.lost > 0
        assert b1.counters.oversized == b2.counters.oversized == publisher.counters.oversized == 0
