"""Two brokers of one name: the second is refused by its peers, says so, and takes no events that would go nowhere."""

import asyncio

import pytest

from holdfast.carriers.connecting import connect
from holdfast.model.errors import TransportError
from holdfast.net.journal import Note
from holdfast.net.status import status_of
from holdfast.protocol.settings import ProtocolSettings
from tests.net.harness import fails, lab, live, until
from tests.net.test_processes import Processes, processes

__all__ = ["processes"]

BRIEF = ProtocolSettings(heartbeat_us=50_000, lease_us=250_000)


@live
async def test_a_second_broker_of_one_name_lets_no_client_in_and_sends_away_those_it_has() -> None:
    notes: list[Note] = []
    async with lab() as net:
        b1 = await net.broker("b1")
        b2 = await net.broker("b2", peers={"b1": b1.listening[0]})
        await b1.connected_to("b2")
        second = await net.broker("b2", log=notes.append)
        early = await net.client(second)
        assert not status_of(second).problems
        second.add_peer("b1", b1.listening[0])
        await until(lambda: early.broker is None)
        why = "another broker named b2 is connected to b1"
        async with asyncio.timeout(10):
            late = connect(str(second.listening[0]))
            assert why in await fails(late.__aenter__(), TransportError)
        assert status_of(second).problems[0] == why
        assert [each.about for each in notes if each.kind == "name_taken"] == ["b1"]
        assert not second.given_up.is_set()
        await b2.stop(0)  # and then the name is free
        await second.connected_to("b1")
        await early.attached()
        assert not status_of(second).problems


@live
async def test_a_broker_whose_name_stays_taken_gives_up() -> None:
    async with lab() as net:
        b1 = await net.broker("b1", protocol=BRIEF)
        await net.broker("b2", protocol=BRIEF, peers={"b1": b1.listening[0]})
        await b1.connected_to("b2")
        second = await net.broker("b2", protocol=BRIEF, peers={"b1": b1.listening[0]})
        await second.given_up.wait()


@live
async def test_a_peer_that_goes_away_takes_its_word_along() -> None:
    async with lab() as net:
        b1 = await net.broker("b1")
        await net.broker("b2", peers={"b1": b1.listening[0]})
        await b1.connected_to("b2")
        second = await net.broker("b2", peers={"b1": b1.listening[0]})
        await until(lambda: second.name_taken)
        await b1.stop(0)
        await until(lambda: not second.name_taken)


@pytest.mark.slow
def test_a_process_whose_name_is_taken_ends_with_one_line_and_exit_code_2(processes: Processes) -> None:
    hub, address = processes.broker("b1")
    processes.broker("b2", "--peer", f"b1={address}")
    hub.line("b2 connected", error=True)
    second, _ = processes.broker("b2", "--peer", f"b1={address}")
    second.line("two brokers cannot have one name", error=True)
    second.line("b2 stopped")
    why = "b2 gives up: another broker named b2 is connected to b1; give it another --id"
    assert second.line("holdfast:", error=True) == f"holdfast: {why}"
    assert second.wait() == 2
