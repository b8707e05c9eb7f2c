"""An application can follow its connection: connected, disconnected and why, reconnected, moved."""

import asyncio

import pytest

import holdfast
from holdfast.model.errors import MisuseError
from holdfast.net.states import _UNREAD_MAX, ConnectionState, StateChange
from tests.net.harness import lab, live, until


@live
async def test_a_client_tells_of_its_connection_from_the_first_to_the_last() -> None:
    async with lab() as net:
        b1, b2 = await net.broker("b1"), await net.broker("b2")
        client = await net.client(b1, b2)
        changes, called = client.states(), []
        client.on_state(called.append)
        await client.detach()
        await client.attach()
        await client.attached()
        await b1.stop(0)
        await until(lambda: client.broker == "b2")
        await client.close()
        got = [each async for each in changes]
        assert [(each.state, each.broker, each.resumed) for each in got] == [
            ("connected", "b1", False),
            ("disconnected", "b1", False),
            ("reconnected", "b1", True),
            ("disconnected", "b1", False),
            ("moved", "b2", False),
            ("disconnected", "b2", False),
        ]
        assert got[1].reason == "the client detaches" and got[3].reason == "b1 stops"
        assert got[4].reason == "moved from b1 to b2"
        await until(lambda: len(called) == 5)
        assert called == got[1:]  # the callback came after the first connection
        assert [each async for each in client.states()] == got[-1:]


@live
async def test_a_callback_that_fails_harms_nobody_and_one_that_is_ended_hears_no_more() -> None:
    problems: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, problem: problems.append(problem))
    async with lab() as net:
        b1 = await net.broker("b1")
        client = await net.client(b1)
        heard: list[StateChange] = []
        end = client.on_state(heard.append)
        client.on_state(lambda change: 1 / 0)
        await client.detach()
        await until(lambda: heard)
        end()
        end()
        await client.attach()
        await client.attached()
        await until(lambda: len(problems) == 2)
        assert [each.state for each in heard] == ["disconnected"]
        with pytest.raises(MisuseError, match="a callback is a function"):
            client.on_state("print")


@live
async def test_changes_that_nobody_reads_are_bounded() -> None:
    state = ConnectionState()
    changes = state.changes()
    for number in range(_UNREAD_MAX):
        state.on_connected("b1", False, "", number)
        state.on_disconnected("gone", number)
    assert changes.dropped == _UNREAD_MAX
    state.close()
    assert len([each async for each in changes]) == _UNREAD_MAX


def test_the_same_without_async() -> None:
    with holdfast.SyncBroker(name="b1") as broker:
        with holdfast.connect_sync(broker.address) as client:
            changes, called = client.states(), []
            end = client.on_state(called.append)
            assert (changes.next(timeout=60).state, changes.dropped) == ("connected", 0)
            with pytest.raises(TimeoutError):
                changes.next(timeout=0.01)
            client.detach()
            end()
            client.attach(broker.address)
            assert client.attached(timeout=60) == "b1"
            assert [changes.next(timeout=60).state for _ in range(2)] == ["disconnected", "reconnected"]
            client.on_state(lambda change: client.flush())  # which would wait for itself
            assert [each.state for each in called] == ["disconnected"]
        assert list(changes) == []
        end()
