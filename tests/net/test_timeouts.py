"""`timeout=` ends waiting, and the error says what became of what was not sent; many events go in one call."""

from pathlib import Path

import pytest

import holdfast
from holdfast.model.errors import InputError, MisuseError, TimedOutError
from holdfast.protocol.hops.settings import HopSettings
from tests.net.harness import fails, lab, live, take, until, values


@live
async def test_without_a_connection_nothing_is_published_in_time_and_nothing_is_kept() -> None:
    async with lab() as net:
        b1 = await net.broker("b1")
        client = await net.client(b1)
        wanted = client.subscribe("n >= 0")
        await client.publish({"n": 0}, timeout=60)
        await client.flush(timeout=60)
        await client.detach()
        told = await fails(client.publish({"n": 1}, timeout=0.01), TimedOutError)
        assert "not sent and will not be, because there is no connection" in told
        told = await fails(client.publish_many([{"n": 2}], timeout=0.01), TimeoutError)
        assert told == "not done in time: 0 events were sent, the others were not and will not be"
        told = await fails(client.flush(timeout=0), TimedOutError)
        assert "the broker has not confirmed 0 events; sending goes on" in told
        await client.attach()
        assert await client.publish_many({"n": n} for n in range(3, 6)) == 3
        assert values(await take(wanted, 4)) == [0, 3, 4, 5]


@live
async def test_closing_with_a_timeout_says_what_the_broker_has_not_confirmed() -> None:
    async with lab() as net:
        b1 = await net.broker("b1")
        client = await net.client(b1)
        b1._listeners[0].close()  # nobody gets in again
        await client.publish_many([{"n": 1}, {"n": 2}])
        b1.crash()
        await until(lambda: client.broker is None)
        told = await fails(client.close(timeout=0.01), TimedOutError)
        assert "the client is closed, and 2 events that the broker has not confirmed may not have left it" in told
        await client.close(timeout=0.01)
        with pytest.raises(MisuseError, match="closed"):
            await client.publish({"n": 3})


@live
async def test_a_durable_client_says_what_is_not_stored_when_it_closes(tmp_path: Path) -> None:
    async with lab() as net:
        b1 = await net.broker("b1", hops=HopSettings("retransmission"), store=tmp_path / "b1.db")
        client = await net.client(b1, durable=True)
        await client.publish({"n": 1})
        await client.flush()
        b1.crash()
        await client.publish({"n": 2})
        await until(lambda: client.broker is None)
        told = await fails(client.flush(timeout=0.01), TimedOutError)
        assert "the broker has not confirmed 1 event; sending goes on" in told
        told = await fails(client.close(timeout=0.01), TimedOutError)
        assert "the client is closed, and 1 event that the broker has not confirmed" in told


@live
async def test_an_event_that_is_none_is_named_by_its_place() -> None:
    async with lab() as net:
        client = await net.client(await net.broker("b1"))
        told = await fails(client.publish_many([{"n": 1}, {"n": [[]]}, {"n": 2}]), InputError)
        assert told.startswith("event 1: event attribute n") and told.endswith("1 event was sent, the others were not")
        for wrong in ({"n": 1}, 7, "text"):
            assert "takes several events" in await fails(client.publish_many(wrong), MisuseError)
        for wrong in ([1], "text", None, 7):
            assert "an event is a dict" in await fails(client.publish(wrong), MisuseError)
        assert "an event is a dict" in await fails(client.publish_many([[1]]), MisuseError)
        for wrong in (-1, "1", True, float("nan")):
            assert "timeout is" in await fails(client.publish({"n": 1}, timeout=wrong), InputError)
            assert "timeout is" in await fails(client.close(timeout=wrong), InputError)


def test_the_same_without_async() -> None:
    with holdfast.SyncBroker() as broker:
        client = holdfast.connect_sync(broker.address)
        with pytest.raises(InputError, match=r"^event 1500: .*; 1,500 events were sent"):
            client.publish_many([*({"n": n} for n in range(1_500)), {"n": [[]]}])
        client.detach()
        with pytest.raises(TimedOutError, match="no connection"):
            client.publish({"n": 1}, timeout=0.01)
        with pytest.raises(TimedOutError, match="0 events were sent"):
            client.publish_many([{"n": 1}], timeout=0.01)
        with pytest.raises(TimeoutError):
            client.attached(timeout=0.01)
        with pytest.raises(MisuseError, match="an event is a dict"):
            client.publish([1])  # type: ignore[arg-type]
        client.attach(broker.address)
        client.close(timeout=60)
        assert repr(client).startswith("<SyncClient client-") and "closed" in repr(client)
