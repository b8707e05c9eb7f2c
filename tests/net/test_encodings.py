"""How often an event is encoded and decoded on its way: what ARCHITECTURE.md says in "The life of an event"."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import Raw

from holdfast.model.messages import Batch
from holdfast.net import driver, session
from holdfast.net.client import Client
from holdfast.protocol.settings import ProtocolSettings
from holdfast.wire import batch_writer, event_encoding
from tests.net.harness import QUICK, lab, live, settled, take

EVENTS = 200
QUIET = ProtocolSettings(heartbeat_us=60_000_000, lease_us=200_000_000)  # a batch has its frame to itself


def events_in(message: Any) -> int:
    """Events of the test whose attributes would be encoded, or were decoded, with it."""
    if isinstance(message, list):
        return sum(map(events_in, message))
    if isinstance(message, Batch):
        return 0 if isinstance(message.attributes, Raw) else sum(map(events_in, message.attributes))
    inner = getattr(message, "publication", None)
    return events_in(inner.attributes) if inner is not None else isinstance(message, dict) and "n" in message


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    counts: Counter[str] = Counter()

    def count(module: Any, name: str, what: str, of_result: bool = False) -> None:
        real: Callable[[Any], Any] = getattr(module, name)

        def counting(given: Any) -> Any:
            found = real(given)
            counts[what] += events_in(found if of_result else given)
            return found

        monkeypatch.setattr(module, name, counting)

    count(event_encoding, "_encode", "encoded by publishers")
    count(driver, "encode_message", "encoded to be sent")
    count(batch_writer, "encode_message", "encoded to be sent")
    count(session, "decode_frame_untrusted", "decoded", of_result=True)
    return counts


@pytest.mark.parametrize("guarantees", [{}, {"recovery": True, "order": "strict"}], ids=["best effort", "recovery"])
@live
async def test_an_event_is_encoded_once_and_decoded_once_by_each_node(
    counted: Counter[str], guarantees: dict[str, Any]
) -> None:
    async with lab() as room:
        b1, b2 = await room.pair(protocol=QUIET)
        desk = await room.client(b2, settings=QUIET, **guarantees)
        subscription = desk.subscribe("n >= 0")
        await desk.flush()
        feed = await room.client(b1, name="feed", settings=QUIET, **guarantees)
        await settled(desk, feed)
        await feed.publish({"n": 0})  # names that are seen for the first time are looked at more closely
        await take(subscription, 1)
        counted.clear()
        for n in range(EVENTS):
            await feed.publish({"n": n})
        await take(subscription, EVENTS)
    assert counted["encoded by publishers"] == EVENTS
    assert counted["decoded"] == 3 * EVENTS
    if not guarantees:  # the first of a turn leaves at once and alone, and each broker encodes its message anew
        assert counted["encoded to be sent"] == 2


@live
async def test_many_events_of_a_list_are_encoded_once_and_come_in_order_whatever_they_hold(
    counted: Counter[str],
) -> None:
    async with lab() as room:
        b1 = await room.broker("b1", protocol=QUIET)
        feed = await room.client(b1, settings=QUIET)
        subscription = feed.subscribe("n >= 0")
        await feed.flush()
        await feed.publish({"n": 0})
        await take(subscription, 1)
        counted.clear()
        plain: list[dict[str, Any]] = [{"n": n} for n in range(EVENTS)]
        assert await feed.publish_many(plain) == EVENTS
        assert [each.event for each in await take(subscription, EVENTS)] == plain
        assert counted["encoded by publishers"] == EVENTS
        others = (
            {"n": 1, "at": {"desk": 7}},
            {"n": 2, "text": "x" * 5_000},
            {"n": 3, "when": datetime(2026, 1, 1, tzinfo=UTC)},
        )
        mixed = [*plain[:130], *others, *plain[130:]]
        assert await feed.publish_many(tuple(mixed)) == len(mixed)
        assert [each.event for each in await take(subscription, len(mixed))] == mixed


def test_attributes_that_are_bytes_already_do_not_count() -> None:
    assert events_in(Batch((1,), "p", (0,), Raw(b"\x91\x80"), (), 0)) == 0  # type: ignore[arg-type]
    assert events_in([Batch((1, 2), "p", (0, 0), ({"n": 1}, {"n": 2}), (), 0)]) == 2


@live
async def test_a_traced_client_takes_the_events_of_a_batch_one_by_one() -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        publisher = await net.client(broker)
        async with Client([broker.listening[0]], "traced", None, QUICK, tallied=True) as client:
            wanted = client.subscribe("n >= 0")
            await settled(client, publisher)
            await publisher.publish_many([{"n": n} for n in range(100)])
            assert [(await anext(wanted)).event["n"] for _ in range(100)] == list(range(100))
            assert client.driver.tallies is not None
            assert client.driver.tallies["Deliver"].received >= 100
