"""A keeper answers for publishers that do not: when they are silent or dead, and after its own restart."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from holdfast.carriers import deputy as timing
from holdfast.carriers import keeper as keeper_module
from holdfast.carriers.bus_format import control_payload, read_untrusted
from holdfast.carriers.carrier import BusMessage
from holdfast.carriers.deputy import GRACE_US, SILENT_US, Deputy, Unanswered
from holdfast.carriers.keeper import Keeper
from holdfast.carriers.memory import MemoryBus
from holdfast.model.errors import InputError
from holdfast.model.messages import Publication
from holdfast.protocol.recovery.control import (
    CONTROL_SEQ,
    Digest,
    Request,
    address_of,
    decode_untrusted,
    encoded,
    labels,
)
from holdfast.store.kept_events import KeptEvents, NotWrittenError
from tests.carriers.riding import RECOVERS, STRICT, Failing, client, numbers, taken
from tests.carriers.test_stories import LANES, events, published

PUB = address_of("pub")[1:]


def publication(seq, source="pub"):
    return Publication(source, seq, 1, None, {"n": seq}, b"", b"")


def deputy():
    known = Deputy()
    known.on_kept("pub", 7, 1, 100, 0)
    return known


def test_who_asks_a_publisher_that_stays_silent_is_answered():
    known = deputy()
    known.on_request(PUB, "sub", Request((5, 1, 2), ((20, 30),)), 10)
    assert known.due(10 + GRACE_US - 1) == []
    assert known.due(10 + GRACE_US) == [Unanswered("pub", "sub", ((5, 6), (8, 8), (20, 30)))]
    assert known.due(10**9) == []


def test_who_asks_in_several_requests_is_answered_to_all_of_them():
    known = deputy()
    known.on_request(PUB, "sub", Request((1, 1, 1)), 0)
    known.on_request(PUB, "sub", Request((4, 1)), 5)
    known.on_request(PUB, "sub", Request((9,), ((20, 30),)), 10)
    assert known.due(GRACE_US) == [Unanswered("pub", "sub", ((1, 5), (9, 9), (20, 30)))]


def test_a_subscriber_gets_nothing_of_before_it_subscribed():
    known = deputy()
    known.on_greeting(PUB, "sub", 1_000)
    known.on_request(PUB, "sub", Request((5,)), 0)
    known.on_request(PUB, "other", Request((5,)), 0)
    assert [(each.by, each.since_us) for each in known.due(GRACE_US)] == [("sub", 1_000), ("other", 0)]


def test_a_publisher_that_answers_answers_itself():
    known = deputy()
    known.on_request(PUB, "sub", Request((5,)), 0)
    known.on_answer("pub", 1_000)
    known.on_request(address_of("other")[1:], "sub", Request((5,)), 0)
    assert known.due(10**9) == []


def test_the_end_of_a_silent_publisher_is_announced_a_few_times():
    known = deputy()
    assert known.to_announce(SILENT_US - 1) == []
    times = [now_us for now_us in range(0, 40 * SILENT_US, SILENT_US) if known.to_announce(now_us)]
    assert times == [SILENT_US, 3 * SILENT_US, 7 * SILENT_US, 15 * SILENT_US, 31 * SILENT_US]
    known.on_digest("pub", Digest(8, 100, 1, b""), 50 * SILENT_US)
    assert known.to_announce(51 * SILENT_US) == [("pub", Digest(8, 100, 1, b""))]


def test_a_digest_that_came_before_the_first_event_was_stored_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(timing, "SILENT_US", 100_000)

    async def story():
        bus, announced = MemoryBus(), []
        keeper = Keeper(client(bus, "keeper", RECOVERS), "TRUE", tmp_path / "kept.db", 10**8, "plant", bus.connection)
        await keeper.start()
        digest = Digest(8, 3, 1, b"")
        said = Publication("pub", CONTROL_SEQ, 1, None, labels(digest, (), "pub"), encoded(digest))
        bus.publish(BusMessage(("~plant", "all"), control_payload(said)))
        publish = bus.publish

        def lossy(message):
            """All control messages are lost from here on, also the publisher's answer to the keeper's greeting."""
            if message.lane[0] != "~plant":
                publish(message)
            elif message.lane == ("~plant", "all"):
                announced.append(message)

        bus.publish = lossy
        async with client(bus, "pub", RECOVERS) as pub:
            await published(pub, events(3))
            while keeper.stored < 3:
                await asyncio.sleep(0.01)
            await pub.close(in_haste=True)
        announced.clear()
        while not announced:
            await asyncio.sleep(0.01)
        await keeper.stop()
        return decode_untrusted(read_untrusted(announced[0].payload).publication)

    assert asyncio.run(asyncio.wait_for(story(), 60)).epoch == 8


def test_a_store_gives_back_what_it_was_given_and_drops_the_oldest(tmp_path):
    store = KeptEvents(tmp_path / "kept.db", 100_000)
    store.add([publication(seq) for seq in range(1, 11)])
    store.add([publication(5), publication(20)])
    assert [each.seq for each in store.between("pub", 4, 20, 4)] == [4, 5, 6, 7]
    assert store.between("pub", 20, 20, 1) == [publication(20)]
    store.note_epoch("pub", 77)
    store.close()
    store = KeptEvents(tmp_path / "kept.db", 500)
    assert store.sources() == {"pub": (77, 1, 20)}
    store.add([publication(21)])
    assert [each.seq for each in store.between("pub", 1, 100, 100)][-3:] == [10, 20, 21]
    assert store.bytes <= 500


def test_a_damaged_row_counts_as_not_there_and_other_files_are_refused(tmp_path):
    path = tmp_path / "kept.db"
    store = KeptEvents(path, 100_000)
    store.add([publication(1), publication(2)])
    store.close()
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE events SET body = zeroblob(10) WHERE seq = 1")
    store = KeptEvents(path, 100_000)
    assert [each.seq for each in store.between("pub", 1, 2, 10)] == [2]
    with pytest.raises(InputError, match="another keeper is using this file"):
        KeptEvents(path, 100_000)
    store.close()
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as file:
        file.execute("CREATE TABLE mine (x)")
    with pytest.raises(InputError, match="something else"):
        KeptEvents(other, 1)


def filled(store):
    """A disk without room for another page, until this is called with False."""

    def set_full(is_full):
        (pages,) = store._file.execute("PRAGMA page_count").fetchone()
        store._file.execute(f"PRAGMA max_page_count = {pages if is_full else 10**6}")

    return set_full


def test_a_store_on_a_full_disk_is_as_it_was_and_takes_more_when_there_is_room(tmp_path):
    store = KeptEvents(tmp_path / "kept.db", 10**6)
    store.add([publication(1)])
    before, set_full = store.bytes, filled(store)
    set_full(True)
    many = [publication(seq) for seq in range(2, 2_000)]
    for _ in range(2):
        with pytest.raises(NotWrittenError, match="full"):
            store.add(many)
    assert (len(store), store.bytes) == (1, before)
    set_full(False)
    store.add(many)
    assert len(store) == 1_999
    store.close()


def test_a_keeper_whose_disk_was_full_stores_what_came_meanwhile(tmp_path, monkeypatch):
    monkeypatch.setattr(keeper_module, "_TRY_AGAIN_S", 0.01)

    async def story():
        bus, said = MemoryBus(), []
        own = client(bus, "keeper", RECOVERS)
        keeper = Keeper(own, "TRUE", tmp_path / "kept.db", 10**8, "plant", bus.connection, said.append)
        await keeper.start()
        set_full = filled(keeper._store)
        set_full(True)
        async with client(bus, "pub", RECOVERS) as pub:
            await published(pub, events(2_000))
            while not said:
                await asyncio.sleep(0.01)
            set_full(False)
            while keeper.stored < 2_000:
                await asyncio.sleep(0.01)
            await pub.close(in_haste=True)
        await keeper.stop()
        return said

    told, again = asyncio.run(story())
    assert "full" in told and again == "stores events again"


@pytest.mark.parametrize("lanes", ["", LANES], ids=["one", "lanes"])
@pytest.mark.parametrize("restarts", [False, True])
def test_what_a_dead_publisher_can_no_longer_send_comes_from_the_keeper(lanes, restarts, tmp_path, monkeypatch):
    monkeypatch.setattr(timing, "GRACE_US", 50_000)
    monkeypatch.setattr(timing, "SILENT_US", 100_000)

    async def story():
        bus, deaf = MemoryBus(), {"sub": False}

        def new_keeper():
            own = client(bus, "keeper", RECOVERS, lanes)
            return Keeper(own, "TRUE", tmp_path / "kept.db", 10**8, "plant", bus.connection)

        keeper = new_keeper()
        await keeper.start()
        async with client(bus, "sub", STRICT, lanes) as sub:
            mine = sub.subscribe("n >= 0")
            await sub.flush()
            (ears,) = [each for each in bus.carriers if any("plant" in str(one) for one in each._patterns)][-1:]
            wants = ears.wants
            ears.wants = lambda message: wants(message) and not deaf["sub"]
            async with client(bus, "pub", RECOVERS, lanes) as pub:
                await published(pub, events(20))
                got = await taken(mine, 20)
                deaf["sub"] = True
                await published(pub, events(40, 20))
                await pub.flush()
                while keeper.stored < 60:
                    await asyncio.sleep(0.01)
                await pub.close(in_haste=True)
            if restarts:
                await keeper.stop()
                keeper = new_keeper()
                await keeper.start()
            deaf["sub"] = False
            got += await taken(mine, 40)
            named = sub.losses().take()
            await keeper.stop()
            return numbers(got), named

    got, named = asyncio.run(story())
    assert got == list(range(60))
    assert not named


def test_who_subscribes_after_a_publishers_death_does_not_get_its_past(tmp_path, monkeypatch):
    monkeypatch.setattr(timing, "GRACE_US", 50_000)
    monkeypatch.setattr(timing, "SILENT_US", 100_000)

    async def story():
        bus = MemoryBus()
        keeper = Keeper(client(bus, "keeper", RECOVERS), "TRUE", tmp_path / "kept.db", 10**8, "plant", bus.connection)
        await keeper.start()
        async with client(bus, "dead", RECOVERS) as dead:
            await published(dead, events(10))
            while keeper.stored < 10:
                await asyncio.sleep(0.01)
            await dead.close(in_haste=True)
        async with client(bus, "sub", STRICT) as sub, client(bus, "pub", RECOVERS) as pub:
            mine = sub.subscribe("n >= 0")
            await sub.flush()
            while not keeper.answered:
                await asyncio.sleep(0.01)
            await published(pub, events(5, 100))
            got, named = await taken(mine, 5), sub.losses().take()
        await keeper.stop()
        return numbers(got), named

    assert asyncio.run(asyncio.wait_for(story(), 60)) == ([100, 101, 102, 103, 104], [])


@pytest.mark.parametrize("refuses", [True, False], ids=["refused", "broken"])
def test_a_keeper_hears_requests_again_however_often_connecting_fails(refuses, tmp_path):
    async def story():
        bus, left = MemoryBus(), []
        own = client(bus, "keeper", RECOVERS)
        keeper = Keeper(own, "TRUE", tmp_path / "kept.db", 10**8, "plant", lambda: Failing(bus, left, refuses))
        await keeper.start()
        left += [1, 2, 3]
        bus.crash()
        while left or not any(each.wants(BusMessage(("~plant", "at", "X"), b"")) for each in bus.carriers):
            await asyncio.sleep(0.01)
        await keeper.stop()
        return bus.carriers

    assert asyncio.run(asyncio.wait_for(story(), 60)) == []  # nor is any of the others left open


def test_a_keeper_survives_garbage(tmp_path):
    async def story():
        bus = MemoryBus()
        keeper = Keeper(client(bus, "keeper", RECOVERS), "TRUE", tmp_path / "kept.db", 10**8, "plant", bus.connection)
        await keeper.start()
        for payload in (b"", b"\xc1hfc", b"\xc1hfz", b"{}"):
            bus.publish(BusMessage(("~plant", "all"), payload))
            bus.publish(BusMessage(("~plant", "at", "X"), payload))
        async with client(bus, "pub", RECOVERS) as pub:
            await published(pub, events(3))
            while keeper.stored < 3:
                await asyncio.sleep(0.01)
        await keeper.stop()

    asyncio.run(asyncio.wait_for(story(), 60))
