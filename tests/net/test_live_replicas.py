"""What `holdfast up` does when a broker asks for a replica, with hosts that only note what they are told."""

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.model.errors import TransportError
from holdfast.net.address import Address
from holdfast.net.clock import Clock
from holdfast.net.live import LiveRun
from holdfast.net.member import OnGone, OnWanted, Row
from holdfast.network.load import parse_text
from holdfast.network.schema import LinkSpec
from holdfast.protocol.effects import ReplicaWanted
from holdfast.protocol.replication.settings import Role
from tests.net.harness import live

WANTED = ReplicaWanted("f", ("a", "s"), "ordered", "failover")
DATA: dict[str, Any] = {
    "routing": "advertisements",
    "topology": {"kind": "line", "brokers": ["a", "f", "s"]},
    "transport": {"kind": "tcp"},
    "replication": {"protocol": "ordered"},
}


class NotingHost:
    def __init__(self, name: str, lab: "Lab") -> None:
        self.name = name
        self.on_gone: OnGone = lambda name: None
        self.on_released: OnGone = lambda name: None
        self._lab = lab

    async def start(self, listen: Address) -> Address:
        if listen.port in self._lab.taken:
            raise TransportError(f"{listen} is taken")
        return Address("tcp", "127.0.0.1", listen.port or next(self._lab.ports))

    async def link(self, spec: LinkSpec, far: str, address: Address | None) -> None:
        if self.name in self._lab.dead:
            raise TransportError(f"the broker {self.name} has ended")
        self._lab.links.append((self.name, far))

    async def unlink(self, far: str) -> None: ...
    async def set_link(self, far: str, up: bool) -> None: ...
    async def connected(self, far: str) -> None: ...

    async def answers(self) -> bool:
        return self.name not in self._lab.hanging

    async def hang(self) -> None: ...
    async def resume(self) -> None: ...

    async def crash(self) -> None:
        self._lab.killed.append(self.name)

    async def stop(self) -> None: ...


class Lab:
    """A run that is up, and what happens in it."""

    def __init__(self) -> None:
        self.ports = iter(range(7001, 8000))
        self.taken: set[int] = set()
        self.hanging: set[str] = set()
        self.dead: set[str] = set()
        self.killed: list[str] = []
        self.links: list[tuple[str, str]] = []
        self.hosts: dict[str, NotingHost] = {}
        self.noted: list[tuple[str, str, str | None]] = []
        self.when: dict[str, Callable[[], None]] = {}  # by the kind of what is noted
        self.missing = 0
        self.run = LiveRun(parse_text(DATA), 1, self._new_host, self, Clock())

    def _new_host(self, name: str, role: Role | None, on_wanted: OnWanted) -> NotingHost:
        self.hosts[name] = NotingHost(name, self)
        return self.hosts[name]

    def on_rows(self, rows: list[Row]) -> None:
        for _, node, _, kind, peer, *_ in rows:
            self.noted.append((node, kind, peer))
            self.when.get(kind, lambda: None)()

    on_published = on_delivered = on_subscribed = on_unsubscribed = None  # type: ignore[assignment]  # nobody does

    async def after(self, *actions: Callable[[], None], until: str | None = None) -> list[tuple[str, str, str | None]]:
        await self.run.start()
        self.links.clear()
        for action in actions:
            action()
        while until is not None and until not in [kind for _, kind, _ in self.noted]:
            await asyncio.sleep(0)
        await self.run.stop()  # waits for what is under way
        return self.noted


@live
async def test_a_broker_that_answers_is_not_replaced() -> None:
    lab = Lab()
    noted = await lab.after(lambda: lab.run.want(WANTED))
    assert ("f+1", "replica_not_needed", "f") in noted
    assert not lab.killed
    assert "f+1" not in lab.hosts


@live
async def test_a_broker_that_hangs_is_killed_and_its_replica_gets_its_address() -> None:
    lab = Lab()
    lab.hanging.add("f")
    noted = await lab.after(lambda: lab.run.want(WANTED))
    assert lab.killed == ["f"]
    assert noted[-2:] == [("f", "crash", None), ("f+1", "replica_started", "f")]
    assert set(lab.links) == {("a", "f+1"), ("f+1", "a"), ("s", "f+1"), ("f+1", "s")}


@live
async def test_a_broker_that_somebody_else_has_killed_is_known_to_be_down() -> None:
    lab = Lab()
    noted = await lab.after(lambda: lab.hosts["f"].on_gone("f"), lambda: lab.run.want(WANTED))
    assert noted[0] == ("f", "crash", None)
    assert ("f+1", "replica_started", "f") in noted
    assert not lab.killed


@live
async def test_an_address_that_is_taken_does_not_keep_a_replica_from_coming() -> None:
    lab = Lab()
    lab.hanging.add("f")
    noted = await lab.after(lambda: lab.taken.update(range(7001, 7004)), lambda: lab.run.want(WANTED))
    assert "replica_address_changed" in [kind for _, kind, _ in noted]
    assert ("f+1", "replica_started", "f") in noted


@live
async def test_one_neighbour_that_is_dead_does_not_keep_the_others_from_being_linked() -> None:
    lab = Lab()
    lab.hanging.add("f")
    noted = await lab.after(lambda: lab.dead.add("a"), lambda: lab.run.want(WANTED))
    assert ("f+1", "replica_not_linked", "a") in noted
    assert set(lab.links) == {("f+1", "a"), ("s", "f+1"), ("f+1", "s")}  # it is dialled until it is there


@live
async def test_a_replica_that_cannot_be_started_leaves_room_for_the_next() -> None:
    lab = Lab()
    lab.hanging.add("f")

    def ask_again() -> None:
        lab.taken.clear()
        lab.run.want(WANTED)

    lab.when["task_failed"] = ask_again
    taken = lambda: lab.taken.update((0, *range(7001, 7004)))  # noqa: E731
    noted = await lab.after(taken, lambda: lab.run.want(WANTED), until="replica_started")
    assert ("f+2", "replica_started", "f") in noted
