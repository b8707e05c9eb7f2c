"""Subscriptions that begin in the past, over real sockets: what was kept, then what is new, each event once."""

import asyncio
import json
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

import holdfast
from holdfast.model.errors import HoldfastWarning, InputError, MisuseError, TransportError
from holdfast.net.broker_history import BrokerHistory
from holdfast.net.history_keeper import HistoryKeeper
from holdfast.net.history_settings import HistorySettings
from holdfast.net.seat import Seat
from holdfast.net.session import Session
from holdfast.store.log import Retention
from holdfast.wire.signals import AskPast, Past
from tests.net.harness import lab, live, settled, take
from tests.net.test_impairment import impaired
from tests.net.test_processes import Process

MS = 0.001


async def numbers(subscription: holdfast.Subscription, count: int) -> list[int]:
    return [(await subscription.next(timeout=10)).event["n"] for _ in range(count)]


async def fill(address: str, first: int, last: int) -> None:
    async with holdfast.connect(address) as publisher:
        await publisher.publish_many([{"n": each, "odd": each % 2 == 1} for each in range(first, last + 1)])
        await publisher.flush()


@live
async def test_a_late_subscriber_gets_what_was_kept_and_then_what_is_new(tmp_path: Path) -> None:
    async with holdfast.Broker(history=tmp_path) as broker:
        await fill(broker.address, 1, 3_000)
        async with holdfast.connect(broker.address) as client:
            odd = client.subscribe("odd = TRUE", since=3_600)
            assert await numbers(odd, 1_500) == list(range(1, 3_000, 2))
            await fill(broker.address, 3_001, 3_010)
            assert await numbers(odd, 5) == [3_001, 3_003, 3_005, 3_007, 3_009]
            latest = client.subscribe("n > 0", last=2)
            assert await numbers(latest, 2) == [3_009, 3_010]
            assert (odd.waiting, latest.waiting, list(client.losses().take())) == (0, 0, [])


@live
async def test_a_subscription_in_the_middle_of_a_burst_has_neither_gap_nor_repeat(tmp_path: Path) -> None:
    async with holdfast.Broker(history=tmp_path) as broker, holdfast.connect(broker.address) as client:
        burst = asyncio.create_task(fill(broker.address, 1, 20_000))
        subscriptions = []
        for _ in range(5):
            await asyncio.sleep(20 * MS)
            subscriptions.append(client.subscribe("n >= 1", since=60, queue_max=500))
        got = await asyncio.gather(*(numbers(each, 20_000) for each in subscriptions))
        await burst
        assert all(each == list(range(1, 20_001)) for each in got)
        assert [each.waiting + each.dropped for each in subscriptions] == [0] * 5


@pytest.mark.parametrize("hops", ["basic", "retransmission"])
@live
async def test_history_outlives_its_broker(tmp_path: Path, hops: str) -> None:
    store = tmp_path / "b.db" if hops == "retransmission" else None
    for turn in range(3):
        async with holdfast.Broker(name="b", history=tmp_path / "past", hops=hops, store=store) as broker:
            await fill(broker.address, 10 * turn + 1, 10 * turn + 10)
            async with holdfast.connect(broker.address) as client:
                everything = client.subscribe("n > 0", since=3_600)
                assert await numbers(everything, 10 * turn + 10) == list(range(1, 10 * turn + 11))


@live
async def test_a_folder_is_the_history_of_one_broker_at_a_time(tmp_path: Path) -> None:
    async with holdfast.Broker(history=tmp_path) as broker:
        await fill(broker.address, 1, 5)
        with pytest.raises(InputError, match="another broker keeps its history there"):
            await holdfast.Broker(history=tmp_path).__aenter__()
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(TransportError, match="in use"):
        await holdfast.Broker(f"tcp://127.0.0.1:{taken.getsockname()[1]}", history=tmp_path).__aenter__()
    async with holdfast.Broker(history=tmp_path) as broker, holdfast.connect(broker.address) as client:
        assert await numbers(client.subscribe("n > 0", since=60), 5) == [1, 2, 3, 4, 5]


@live
async def test_the_folder_of_a_broker_that_could_not_start_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(seat: Seat) -> None:
        raise TransportError("no answer within 5 s")

    with monkeypatch.context() as patch, pytest.raises(TransportError, match="no answer"):
        patch.setattr(Seat, "told", fail)
        await holdfast.Broker(history=tmp_path).__aenter__()
    async with holdfast.Broker(history=tmp_path):
        pass


@live
async def test_a_broker_without_history_or_with_another_says_so_and_serves_what_is_new(tmp_path: Path) -> None:
    narrow = HistorySettings(tmp_path, "n > 100")
    for history, reason in ((None, "keeps none; start it with --history"), (narrow, "keeps history of n > 100")):
        async with holdfast.Broker(history=history) as broker, holdfast.connect(broker.address) as client:
            wanted = client.subscribe("n > 1", last=5)
            with pytest.warns(HoldfastWarning, match=reason):
                loss = await asyncio.wait_for(anext(client.losses()), 60)
            assert reason in loss.reason
            await fill(broker.address, 1, 3)
            assert await numbers(wanted, 2) == [2, 3]


@live
async def test_whoever_has_an_answer_may_ask_again_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next question may be there before the broker's task that has sent the answer counts as done."""
    answered: list[str] = []

    def tell_and_hear_more(self: BrokerHistory, session: Session, past: Past) -> None:
        answered.append(past.refused)
        if len(answered) < 3:
            self.on_ask(session, AskPast(past.token, "n > 0", 0, 0))
        tell(self, session, past)

    tell = BrokerHistory._tell
    monkeypatch.setattr(BrokerHistory, "_tell", tell_and_hear_more)
    async with holdfast.Broker(history=tmp_path) as broker, holdfast.connect(broker.address) as client:
        await fill(broker.address, 1, 5)
        assert await numbers(client.subscribe("n > 0", since=60), 5) == [1, 2, 3, 4, 5]
        while len(answered) < 3:
            await asyncio.sleep(MS)
    assert not any(answered)


@live
async def test_who_asks_again_over_a_new_connection_need_not_wait_for_its_former_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[AskPast] = []

    async def first_without_end(self: HistoryKeeper, ask: AskPast, *about: Any) -> Past:
        asked.append(ask)
        if len(asked) == 1:
            await asyncio.Event().wait()
        return await answer(self, ask, *about)

    answer = HistoryKeeper._answer
    monkeypatch.setattr(HistoryKeeper, "_answer", first_without_end)
    async with holdfast.Broker(history=tmp_path) as broker, holdfast.connect(broker.address) as client:
        await fill(broker.address, 1, 5)
        everything = client.subscribe("n > 0", since=60)
        while not asked:
            await asyncio.sleep(MS)
        await client.detach()
        await client.attach()
        assert await numbers(everything, 5) == [1, 2, 3, 4, 5]
        assert not client.losses().take()


@pytest.mark.parametrize("order", ["none", "strict"])
@live
async def test_what_recovery_brings_while_the_past_is_read_is_not_lost_nor_out_of_order(
    tmp_path: Path, order: str
) -> None:
    """The history of b2 does not have what was lost before b2, and the application reads nothing meanwhile."""
    number = 300
    async with lab() as net:
        b1 = await net.broker("b1", **impaired(delay_us=2_000, jitter_us=1_000, loss_ratio=0.1))
        b2 = await net.broker("b2", peers={"b1": b1.listening[0]}, history=HistorySettings(tmp_path))
        publisher = await net.client(b1, recovery=True)
        subscriber = await net.client(b2, recovery=True, order=order)
        await settled(subscriber, publisher)
        old = subscriber.subscribe("old >= 0")
        await settled(subscriber, publisher)
        await publisher.publish_many([{"old": each} for each in range(100)])
        await asyncio.wait_for(take(old, 100), 30)
        wanted = subscriber.subscribe("old >= 0 OR n >= 0", since=60, queue_max=20)
        probe = subscriber.subscribe("n >= 0")
        await settled(subscriber, publisher)
        await publisher.publish_many([{"n": each} for each in range(number)])
        repaired = [await probe.next(timeout=30) for _ in range(number)]
        assert any(each.via == "repair" for each in repaired)
        assert not subscriber.settled
        assert not wanted.account().complete
        got: list[int] = []
        while len(got) < number:
            event = (await wanted.next(timeout=30)).event
            got += [event["n"]] if "n" in event else []
        assert sorted(got) == list(range(number))
        assert got == sorted(got) or order == "none"
        assert wanted.account().complete


@live
async def test_the_last_events_are_those_of_when_it_was_subscribed_however_late_the_answer(tmp_path: Path) -> None:
    async with holdfast.Broker(history=tmp_path) as broker:
        await fill(broker.address, 1, 20)
        async with holdfast.connect(broker.address) as client:
            ask, asked = client._past_reader._ask, 0

            async def ask_and_lose_the_first_answer(question: AskPast) -> Past:
                nonlocal asked
                asked += 1
                answer = await ask(question)
                if asked == 1:
                    await fill(broker.address, 21, 50)
                    await asyncio.wait_for(seen.next(), 30)
                    raise TransportError("the connection broke")
                return answer

            client._past_reader._ask = ask_and_lose_the_first_answer
            seen = client.subscribe("n = 50")
            wanted = client.subscribe("n > 0", last=5)
            assert await numbers(wanted, 35) == list(range(16, 51))
            assert asked > 1


@live
async def test_a_history_that_another_has_replaced_meanwhile_is_named(tmp_path: Path) -> None:
    first = holdfast.Broker(name="b", history=tmp_path / "first")
    async with first:
        place = first.address
        await fill(place, 1, 40)
        client = holdfast.connect(place)
        await client.__aenter__()
        wanted = client.subscribe("n > 0", since=60, queue_max=10)
        assert await numbers(wanted, 1) == [1]
    async with holdfast.Broker(place, name="b", history=tmp_path / "second"):
        assert await numbers(wanted, 9) == list(range(2, 11))
        reason = ""
        while "was replaced by another" not in reason:
            reason = (await asyncio.wait_for(anext(client.losses()), 30)).reason
        await fill(place, 41, 42)
        got = 0
        while got < 42:
            [got] = await numbers(wanted, 1)
        await client.close()


@live
async def test_a_place_in_one_history_is_never_taken_for_one_in_another(tmp_path: Path) -> None:
    """The brokers keep the same, but not from the same time on."""
    first = holdfast.Broker(name="b1", history=tmp_path / "first")
    async with holdfast.Broker(name="b2", history=tmp_path / "second") as second:
        async with first:
            await fill(first.address, -1_000, 20)
            await fill(second.address, 1, 20)
            client = holdfast.connect([first.address, second.address])
            await client.__aenter__()
            wanted = client.subscribe("n > 0", since=60, queue_max=10)
            assert await numbers(wanted, 1) == [1]
        assert await numbers(wanted, 29) == [*range(2, 11), *range(1, 21)]  # ten were asked for at a time
        await client.close()


@live
async def test_a_folder_with_the_history_of_another_condition_is_refused_with_a_hint(tmp_path: Path) -> None:
    async with holdfast.Broker(history=HistorySettings(tmp_path, "n > 1")):
        pass
    with pytest.raises(InputError, match=r"history of another condition than n > 2; name another folder"):
        await holdfast.Broker(history=HistorySettings(tmp_path, "n > 2")).__aenter__()


@live
async def test_what_is_kept_no_longer_is_named(tmp_path: Path) -> None:
    small = HistorySettings(tmp_path, retention=Retention(keep_bytes=400_000, segment_bytes=100_000))
    async with holdfast.Broker(history=small) as broker, holdfast.connect(broker.address) as client:
        slow = client.subscribe("n > 0", since=60, queue_max=10)
        for start in range(0, 20_000, 1_000):
            await fill(broker.address, start + 1, start + 1_000)
        got, lost = [], []
        while not got or got[-1] < 20_000:
            got += await numbers(slow, 1)
        lost = client.losses().take()
        assert got == sorted(set(got))
        assert len(got) < 20_000
        assert any("keeps no longer" in each.reason and each.events for each in lost)


@live
async def test_a_history_whose_files_somebody_removes_says_so_and_keeps_what_is_new(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="holdfast")
    folder = tmp_path / "past"
    async with holdfast.Broker(history=folder) as broker, holdfast.connect(broker.address) as client:
        await fill(broker.address, 1, 10)
        assert await numbers(client.subscribe("n > 0", since=60), 10) == list(range(1, 11))
        rmtree(folder)
        await fill(broker.address, 11, 20)
        assert await numbers(client.subscribe("n > 0", since=60), 10) == list(range(11, 21))
        assert "10 events are gone: somebody has removed the files" in caplog.text


@live
async def test_a_history_that_is_damaged_meanwhile_is_named_and_what_is_new_comes(tmp_path: Path) -> None:
    async with holdfast.Broker(history=tmp_path) as broker:
        await fill(broker.address, 1, 5_000)
        async with holdfast.connect(broker.address) as client:
            assert await numbers(client.subscribe("n > 0", last=1), 1) == [5_000]  # so it is written
            for file in (each for each in tmp_path.rglob("*") if each.is_file() and each.stat().st_size > 50_000):
                with file.open("r+b") as segment:
                    segment.seek(20_000)
                    segment.write(bytes(20_000))
            with pytest.warns(HoldfastWarning, match="its files cannot be read"):
                wanted = client.subscribe("n > 0", since=3_600)
                loss = await anext(client.losses())
            assert "its files cannot be read" in loss.reason
            await fill(broker.address, 5_001, 5_001)
            while (await wanted.next(timeout=10)).event["n"] != 5_001:
                pass


@live
async def test_nobody_reads_in_the_past_what_their_right_leaves_out(tmp_path: Path) -> None:
    rights = tmp_path / "rights.toml"
    rights.write_text(
        '[[right]]\nwho = "writer"\npublish = "TRUE"\n[[right]]\nwho = "*"\nsubscribe = "odd = TRUE"\nnarrow = true\n'
        '[[right]]\nwho = "anonymous"\npublish = "TRUE"\nsubscribe = "odd = TRUE"\nnarrow = true\n'
    )
    async with holdfast.Broker(history=tmp_path / "past", rights=rights) as broker:
        await fill(broker.address, 1, 10)
        async with holdfast.connect(broker.address) as client:
            assert await numbers(client.subscribe("n > 0", since=60), 5) == [1, 3, 5, 7, 9]


@live
async def test_what_cannot_be_asked_for_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the condition of the history"):
        holdfast.Broker(history=HistorySettings(tmp_path, "n >"))
    async with holdfast.Broker() as broker, holdfast.connect(broker.address) as client:
        with pytest.raises(InputError, match="last is 0"):
            client.subscribe("n > 0", last=0)
        with pytest.raises(InputError, match="since is -1"):
            client.subscribe("n > 0", since=-1)
    async with (
        holdfast.Broker(hops="retransmission", store=tmp_path / "b.db") as broker,
        holdfast.connect(broker.address, name="d", durable=True) as client,
    ):
        with pytest.raises(MisuseError, match="durable"):
            client.subscribe("n > 0", last=1)


@pytest.mark.slow
@live
async def test_a_broker_that_is_killed_again_and_again_keeps_all_that_it_acknowledged(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    where = "--id", "b", "--listen", address, "--history", str(tmp_path / "past")
    store = "--hops", "retransmission", "--store", str(tmp_path / "b.db")

    def started() -> Process:
        broker = Process("broker", *where, *store)
        broker.line("ready")
        return broker

    broker, total = started(), 30_000
    try:
        async with holdfast.connect(address, name="feed", durable=True) as feed:
            for start in range(0, total, 5_000):
                sending = asyncio.create_task(feed.publish_many({"n": start + each} for each in range(5_000)))
                await asyncio.sleep(0.2)
                broker.send(signal.SIGKILL)
                broker.wait()
                broker = started()
                await sending
            await feed.flush(timeout=60)
        async with holdfast.connect(address) as late:
            assert await numbers(late.subscribe("n >= 0", since=600), total) == list(range(total))
    finally:
        broker.end()


@pytest.mark.slow
@live
async def test_the_command_line_begins_in_the_past(tmp_path: Path) -> None:
    async with holdfast.Broker(history=tmp_path) as broker:
        await fill(broker.address, 1, 100)
        for option, first in ((["--last", "3"], 98), (["--since", "3600"], 1)):
            program = [sys.executable, "-m", "holdfast", "sub", "n > 0", "--broker", broker.address, "--count", "3"]
            printing = await asyncio.create_subprocess_exec(*program, *option, stdout=PIPE, stderr=DEVNULL)
            printed, _ = await printing.communicate()
            assert [json.loads(line)["n"] for line in printed.splitlines()] == [first, first + 1, first + 2]
