"""What every durable store of a broker has to do; the simulator's and the live one pass the same kit.

Subclass `StoreKit` in a test module and say how a store is opened, and opened again after a crash.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from holdfast.model.errors import InputError
from holdfast.model.messages import Batch, Deliver, LinkState, Publication, Publish
from holdfast.protocol.store_changes import (
    AckedUpTo,
    At,
    Began,
    Body,
    Change,
    Clocked,
    Erase,
    Forgot,
    GaveUp,
    Keep,
    Knows,
    Learned,
    Met,
    Opened,
    Partly,
    Skipped,
    Stored,
)
from holdfast.store.interface import Store
from holdfast.store.memory import apply


def event(number: int) -> Publication:
    return Publication("p", number, 5, None, {"n": number, "t": "é", "x": 1.5, "b": True, "none": None}, b"\0\xff")


class StoreKit:
    damages = 50  # that are tried on the files of a killed process, and as many on those of a closed store

    def open(self, place: Any) -> Store:
        """A store at this place; what is there already is kept."""
        raise NotImplementedError

    def files(self, place: Any) -> list[Path]:
        """The files of the store at this place, if it has any; they can be read while it is open."""
        return []

    def crash(self, store: Store) -> None:
        """The process that had it open is gone."""
        store.close()

    def again(self, store: Store, place: Any) -> Stored:
        """What a broker finds that begins again."""
        self.crash(store)
        return self.open(place).load()

    def test_a_new_store_is_empty(self, place: Any) -> None:
        assert self.open(place).load() == Stored()

    def test_what_was_written_is_there_after_a_crash(self, place: Any) -> None:
        store = self.open(place)
        store.write([Began(7), Met("b2", "broker", True), Met("c", "client", False)])
        store.write([Learned("b2", "subscriptions", 3, ("a = 1", "b = 2"), (), False), At("b2", 5, 9)])
        store.write([Opened("b2", 11), Keep(1, 99, Publish(event(1), ("b3",), 2), (("b2", 1),))])
        store.write([Knows(LinkState("b9", 1, 2, ("b2",), ("a = 1",)))])
        found = self.again(store, place)
        assert found.epoch == 7
        assert found.bodies == {1: (99, Publish(event(1), ("b3",), 2))}
        assert found.states == [LinkState("b9", 1, 2, ("b2",), ("a = 1",))]
        assert (found.neighbours["c"].kind, found.neighbours["c"].acknowledges) == ("client", False)
        b2 = found.neighbours["b2"]
        assert b2.tables == {"subscriptions": (3, ["a = 1", "b = 2"])}
        assert (b2.at, b2.stream, b2.queue, b2.used) == ((5, 9), 11, {1: 1}, 0)

    def test_every_kind_of_message_comes_back_as_it_was(self, place: Any) -> None:
        store = self.open(place)
        run = Batch((1, 2), "p", (5, 6), ({"n": 1}, {"n": 2}), (b"", b"x"), 3)
        bodies: list[Body] = [Publish(event(1), (), 1, "retransmission"), Deliver(event(2)), run]
        store.write([Keep(number, 0, body, ()) for number, body in enumerate(bodies)])
        assert [message for _, message in self.again(store, place).bodies.values()] == bodies

    def test_what_is_done_with_is_gone_and_its_numbers_are_not_given_again(self, place: Any) -> None:
        store = self.open(place)
        store.write([Met("b2", "broker", True), Opened("b2", 1)])
        store.write([Keep(number, 0, Publish(event(number)), (("b2", number),)) for number in range(1, 6)])
        store.write([AckedUpTo("b2", 2), Erase((1, 2)), Skipped("b2", 5), Erase((5,))])
        found = self.again(store, place)
        assert (found.neighbours["b2"].queue, found.neighbours["b2"].used) == ({3: 3, 4: 4}, 5)
        assert list(found.bodies) == [3, 4]

    def test_how_far_a_neighbour_is_within_a_run_is_kept_until_its_numbers_begin_anew(self, place: Any) -> None:
        store = self.open(place)
        run = Batch((1, 2, 3), "p", (5, 6, 7), ({"n": 1}, {"n": 2}, {"n": 3}), (), 3)
        store.write([Met("c", "client", True), Opened("c", 1), Keep(1, 0, run, (("c", 1),)), Partly("c", 1, 2)])
        store.write([Partly("c", 1, 3)])
        assert self.again(store, place).neighbours["c"].partly == (1, 3)
        store = self.open(f"{place}-anew")
        store.write([Met("c", "client", True), Partly("c", 1, 3), Opened("c", 9)])
        assert self.again(store, f"{place}-anew").neighbours["c"].partly == (0, 0)

    def test_a_neighbour_that_is_forgotten_leaves_nothing(self, place: Any) -> None:
        store = self.open(place)
        store.write([Met("c", "client", True), Opened("c", 1), Learned("c", "subscriptions", 1, ("a = 1",), (), True)])
        store.write(
            [Keep(1, 0, Deliver(event(1)), (("c", 1),)), At("c", 4, 4), Partly("c", 1, 1), Forgot("c"), Erase((1,))]
        )
        assert self.again(store, place) == Stored()

    def test_of_damaged_files_nothing_is_loaded_that_was_not_written(self, place: Any) -> None:
        """Each damage is found or harmless; only a last transaction may be left out, and the store tells of it."""
        store = self.open(place)
        versions: list[Stored] = []
        for changes in some_traffic():
            store.write(changes)
            versions.append(store.load())
        killed = {path: path.read_bytes() for path in self.files(place)}
        self.crash(store)
        closed = {path: path.read_bytes() for path in self.files(place)}
        outcomes: Counter[str] = Counter()
        for number in range(self.damages if closed else 0):
            for files in (killed, closed):
                for path in self.files(place):
                    path.unlink()
                for path, content in damaged(files, Random(number)).items():
                    path.write_bytes(content)
                outcome = self.outcome(place, versions)
                assert outcome != "altered", (number, files is killed)
                outcomes[outcome] += 1
        assert not closed or min(outcomes["harmless"], outcomes["found"]) > self.damages / 10, outcomes

    def outcome(self, place: Any, versions: list[Stored]) -> str:
        """What becomes of a damaged store, of which these were the contents after each transaction."""
        try:
            store = self.open(place)
        except InputError:
            return "found"
        try:
            loaded = store.load()
        except InputError:
            return "found"
        finally:
            self.crash(store)
        if loaded == versions[-1]:
            return "harmless"
        return "left out" if store.incomplete and loaded in versions else "altered"

    def test_any_changes_leave_what_the_plain_way_leaves(self, place: Any) -> None:
        for seed in range(6):
            dice, expected = Random(seed), Stored()
            store = self.open(f"{place}-{seed}")
            for _ in range(dice.randrange(1, 12)):
                changes = list(some_changes(dice))
                store.write(changes)
                for change in changes:
                    apply(expected, change)
                if dice.random() < 0.3:
                    self.crash(store)
                    store = self.open(f"{place}-{seed}")
            assert self.again(store, f"{place}-{seed}") == expected


def some_traffic() -> Iterator[list[Change]]:
    """Transactions of a broker with a neighbour and a client."""
    yield [Began(7), Met("b2", "broker", True), Met("c", "client", True), Opened("b2", 1), Opened("c", 2)]
    yield [Learned("c", "subscriptions", 1, ("a = 1", "b = 2"), (), True), At("b2", 5, 9)]
    yield [
        Knows(LinkState("b9", 1, 2, ("b2",), ("a = 1",))),
        GaveUp("d", 1, 2, 3, "away too long"),
        Clocked("b", -5, 9),
    ]
    for start in range(1, 100, 10):
        yield [Keep(n, 99, Publish(event(n)), (("b2", n), ("c", n))) for n in range(start, start + 10)]
    yield [AckedUpTo("b2", 20), Partly("c", 1, 1)]


def damaged(files: dict[Path, bytes], dice: Random) -> dict[Path, bytes]:
    """The same files, one of them with a few bits changed, bytes replaced, or bytes zeroed."""
    path = dice.choice([each for each, content in files.items() if content])
    content = bytearray(files[path])
    at = dice.randrange(len(content))
    length = min(len(content) - at, dice.choice([1, 4, 64]))
    drawn = bytes([content[at] ^ 1 << dice.randrange(8)]) if length == 1 else dice.randbytes(length)
    content[at : at + length] = dice.choice([drawn, bytes(length)])
    return {**files, path: bytes(content)}


_bodies = 0


def some_changes(dice: Random) -> Sequence[Change]:
    """Changes as brokers make them: bodies have new numbers, a neighbour's numbers count up."""
    global _bodies  # noqa: PLW0603  # numbers that were not used before
    changes: list[Change] = []
    for _ in range(dice.randrange(1, 9)):
        name = dice.choice(["a", "b", "c"])
        _bodies += 1
        choices: list[Change] = [
            Began(dice.randrange(9)),
            Met(name, dice.choice(["broker", "client"]), dice.random() < 0.5),
            Forgot(name),
            Learned(name, "subscriptions", _bodies, (dice.choice("xyz"),), (dice.choice("xyz"),), False),
            Learned(name, "advertisements", _bodies, tuple(dice.sample("xyz", 2)), (), True),
            Knows(LinkState(name, dice.randrange(9), 1, (), ())),
            At(name, dice.randrange(9), dice.randrange(9)),
            Opened(name, _bodies),
            Keep(_bodies, 3, Publish(event(_bodies)), ((name, _bodies),)),
            AckedUpTo(name, _bodies - dice.randrange(20)),
            Partly(name, _bodies, dice.randrange(99)),
            Skipped(name, _bodies - dice.randrange(20)),
            GaveUp(name, _bodies, _bodies + 1, dice.randrange(3), dice.choice(["", "away too long"])),
            Clocked(name, dice.randrange(-9, 9), _bodies),
            Erase((_bodies - dice.randrange(20), _bodies - dice.randrange(20))),
        ]
        changes.append(dice.choice(choices))
    return changes
