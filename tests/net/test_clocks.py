"""No promise depends on two clocks that agree, nor on one that nobody sets."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.net.clock import Clock
from holdfast.protocol.hops.settings import HandoverSettings, HopSettings
from holdfast.protocol.reliable_client import EXPIRED
from holdfast.protocol.store_changes import Clocked
from tests.net.harness import lab, live, settled, take, values
from tests.net.test_impairment import impaired

SECOND_US = 1_000_000
HOUR_US = 3_600 * SECOND_US
EVENTS = 50
STORING = replace(HopSettings("retransmission"), handover=HandoverSettings(sweep_us=20_000))

# Stored events and a clock that is set ---------------------------------------------------------------------------


@pytest.mark.parametrize("set_us", [HOUR_US, -HOUR_US, 1_000 * HOUR_US])
@pytest.mark.parametrize("lifetime_s", [None, 600.0])
@live
async def test_stored_events_survive_a_clock_that_is_set(tmp_path: Path, set_us: int, lifetime_s: float | None) -> None:
    notes: list[str] = []
    storing: dict[str, Any] = {"hops": STORING, "store": tmp_path / "b1.db"}
    async with lab() as net:
        first = await net.broker("b1", **storing)
        desk = await net.client(first, name="desk", durable=True)
        desk.subscribe("n >= 0")
        await desk.flush()
        await desk.detach()
        feed = await net.client(first, name="feed", durable=True)
        for n in range(EVENTS):
            await feed.publish({"n": n}, lifetime=lifetime_s)
        await feed.flush()
        first.crash()
        again = await net.broker("b1", **storing, log=lambda note: notes.append(note.kind), clock=Clock(set_us))
        desk = await net.client(again, name="desk", durable=True)
        assert values(await take(desk.subscribe("n >= 0"), EVENTS)) == [*range(EVENTS)]
        assert "clock_was_set" in notes
        assert not {"expired", "retention_expired"} & again.counters.incidents.keys()


def passed_us(before: Clocked | None, last_us: int) -> int:
    """How much time a new process takes for passed since then."""
    clock, _ = Clock().continued(before, last_us)
    return clock.now_us() - last_us


def test_while_a_machine_runs_its_monotonic_clock_tells_how_much_time_has_passed() -> None:
    earlier = Clock(-HOUR_US)  # it was an hour behind
    assert 0 <= passed_us(earlier.reading(), earlier.now_us()) < SECOND_US
    assert passed_us(earlier.reading(), earlier.now_us() - 60 * SECOND_US) // SECOND_US == 60


def test_after_a_boot_the_time_of_day_counts_within_what_a_boot_takes() -> None:
    now_us = Clock().now_us()
    for ago_us, expected_s in ((60 * SECOND_US, 60), (HOUR_US, 600), (-HOUR_US, 0)):
        at_us = now_us - ago_us
        assert passed_us(Clocked("another boot", 5, at_us), at_us) // SECOND_US == expected_s
        assert passed_us(None, at_us) // SECOND_US == expected_s  # a store of version 0.1


def test_a_clock_that_is_adjusted_a_little_is_not_taken_for_one_that_was_set() -> None:
    clock = Clock()
    assert clock.continued(Clock(200_000).reading(), clock.now_us()) == (clock, 0)


# Lifetimes and clocks that differ --------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead_us", [HOUR_US, -HOUR_US])
@pytest.mark.parametrize("who", ["publisher", "subscriber", "first broker", "second broker"])
@pytest.mark.parametrize("scheme", ["tcp", "udp"])
@live
async def test_an_event_with_a_lifetime_arrives_whoever_s_clock_is_off(scheme: str, who: str, ahead_us: int) -> None:
    clocks = {who: Clock(ahead_us)}
    async with lab() as net:
        anywhere = f"{scheme}://127.0.0.1:0"
        b1 = await net.broker("b1", anywhere, clock=clocks.get("first broker"))
        b2 = await net.broker("b2", anywhere, peers={"b1": b1.listening[0]}, clock=clocks.get("second broker"))
        await b2.connected_to("b1")
        publisher = await net.client(b1, name="p", clock=clocks.get("publisher"))
        subscriber = await net.client(b2, name="s", clock=clocks.get("subscriber"))
        wanted = subscriber.subscribe("n >= 0")
        await settled(subscriber, publisher)
        for n in range(3):
            await publisher.publish({"n": n}, lifetime=5.0)
        got = await take(wanted, 3)
        assert values(got) == [0, 1, 2]
        for node in (b1, b2, subscriber):
            assert "expired" not in node.counters.incidents


@pytest.mark.parametrize("ahead_us", [HOUR_US, -HOUR_US])
@live
async def test_an_event_that_is_too_late_expires_whatever_the_clocks_show_and_is_named(ahead_us: int) -> None:
    async with lab() as net:
        b1 = await net.broker("b1", **impaired(delay_us=400_000))
        b2 = await net.broker("b2", peers={"b1": b1.listening[0]}, clock=Clock(ahead_us))
        publisher = await net.client(b1, name="p", recovery=True, clock=Clock(-ahead_us))
        subscriber = await net.client(b2, name="s", recovery=True)
        wanted = subscriber.subscribe("n >= 0")
        await settled(subscriber, publisher)
        subscriber.losses().take()
        seq = await publisher.publish({"n": 1}, lifetime=0.2)
        await publisher.publish({"n": 2}, lifetime=30)
        assert values([await anext(wanted)]) == [2]
        [lost] = [await anext(subscriber.losses())]
        assert (lost.source, lost.first, lost.last, lost.reason) == ("p", seq, seq, EXPIRED)


@pytest.mark.parametrize("ahead_us", [HOUR_US, -HOUR_US])
@live
async def test_a_repair_brings_back_an_event_with_a_lifetime_whatever_the_clocks_show(ahead_us: int) -> None:
    async with lab() as net:
        b1 = await net.broker("b1", **impaired(delay_us=1_000, loss_ratio=0.2))
        b2 = await net.broker("b2", peers={"b1": b1.listening[0]}, clock=Clock(ahead_us))
        publisher = await net.client(b1, name="p", recovery=True, clock=Clock(-ahead_us))
        subscriber = await net.client(b2, name="s", recovery=True, order="strict")
        wanted = subscriber.subscribe("n >= 0")
        await settled(subscriber, publisher)
        for n in range(100):
            await publisher.publish({"n": n}, lifetime=50)
        got = await take(wanted, 100)
        assert values(got) == [*range(100)]
        assert any(each.via == "repair" for each in got)
