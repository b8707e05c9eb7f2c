"""The console of a run of a network file: it sees everything, because it lives where the books are kept."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from holdfast.console.access import ConsoleAccess
from holdfast.console.acting import RunActs
from holdfast.console.asking import RoutingGraph, about_condition, explained, text_of
from holdfast.console.lamps import Promised, lamps
from holdfast.console.network_view import LinkFacts, Look
from holdfast.console.planning import PlanDesk
from holdfast.console.recent_events import as_json
from holdfast.console.server import Answer, ConsoleServer
from holdfast.console.serving import Console
from holdfast.console.stream_view import StreamView
from holdfast.console.why_not import why_not
from holdfast.language.parser import parse
from holdfast.model.errors import InputError
from holdfast.net.address import Address
from holdfast.net.live import LiveRun
from holdfast.network.schema import Network

_EVENTS_LISTED = 100
_PREDICTED_MAX = 2_000  # clients: predicting takes seconds for them, in the process of the run


class RunConsole:
    """`streams` is to be told what the books are told, from before the start of the run."""

    def __init__(self, network: Network, place: Address, acts: bool) -> None:
        self._network = network
        self._place = place
        self._may_act = acts
        self._console = Console()
        self.streams = StreamView(self._console.board, self._console.history)
        self._planning: asyncio.Task[PlanDesk] | None = None
        self._live: LiveRun

    async def start(self, live: LiveRun) -> ConsoleServer:
        self._live = live
        if len(self._network.clients) <= _PREDICTED_MAX:
            self._planning = asyncio.create_task(asyncio.to_thread(PlanDesk, self._network))  # it takes its time
        acts = RunActs(live, self._console.board, self.streams) if self._may_act else None
        access = ConsoleAccess(self._place.host, acts=self._may_act)
        answers: dict[str, Answer] = {
            "events": self._events,
            "condition": self._condition,
            "explain": _explain,
            "why": self._why,
            "planning": self._plan,
            "plan": self._tried,
        }
        about: dict[str, Any] = {
            "name": self._network.name,
            "kind": "run",
            "routing": self._network.routing,
            "seed": live.seed,
            "duration_s": self._network.duration_us / 1e6,
            "views": list(_VIEWS),
        }

        def also(passed_s: float) -> None:
            self._show(passed_s)
            if acts is not None:
                acts.show()

        return await self._console.serve(
            self._place, access, about, self._look, also, answers, None if acts is None else acts.answers()
        )

    async def stop(self) -> None:
        await self._console.stop(self._look)
        if self._planning is not None:
            self._planning.cancel()

    # What it sees --------------------------------------------------------------------------------

    async def _look(self) -> Look:
        live, statuses = self._live, self._live.statuses()
        down, replaced, starting = dict[str, str](), dict[str, str](), dict[str, str]()
        ready = self.streams.replicas_ready
        retired = {replica for replica in live.standing.values() if replica in live.down}
        for name in live.down - retired:
            replica = live.standing.get(name)
            if replica in ready:
                replaced[name] = str(replica)
            else:
                down[name] = "killed" if replica is None else f"killed; {replica} is to replace it"
            if replica is not None and replica not in ready and replica not in live.down:
                starting[replica] = name
        self.streams.homes = {client: replaced.get(home, home) for client, home in live.homes.items()}
        cut = live.cut_links
        links = tuple(
            LinkFacts(each.a, each.b, each.delay_us, each.loss_ratio, frozenset((each.a, each.b)) in cut)
            for each in live.links
        )
        return Look(round(live.now_us / 1e6, 1), statuses, down, starting, replaced, links, live.homes)

    def _show(self, passed_s: float) -> None:
        planning = self._planning
        if planning is not None and planning.done() and not planning.exception() and not self.streams.predicted:
            shares = planning.result().about()["shares"]
            self.streams.predicted = {name: (direct, end) for name, (direct, end) in shares.items()}
        self.streams.show(passed_s)
        board = self._console.board
        waiting = [board.get(key) for key in board.keys("broker/")]
        unreplaced = [each["name"] for each in waiting if each is not None and each["state"] == "down"]
        for name, entry in lamps(self.streams.promise_numbers(), _promised(self._network), unreplaced):
            board.put(f"promise/{name}", {"promise": name, **entry})

    # What it answers -----------------------------------------------------------------------------

    async def _events(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"events": as_json(self.streams.events.last(_EVENTS_LISTED)), "kept": len(self.streams.events)}

    async def _condition(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return about_condition(given, self.streams, self._topology())

    async def _why(self, given: Mapping[str, Any]) -> dict[str, Any]:
        source, seq = text_of(given, "source"), given.get("seq")
        event = self.streams.events.get(source, seq) if isinstance(seq, int) else None
        if event is None:
            kept = len(self.streams.events)
            raise InputError(f"{source}/{seq} is not among the last {kept:,} events, of which alone this is known")
        key = text_of(given, "client"), text_of(given, "id")
        if key not in self.streams.subscriptions:
            raise InputError(f"there is no subscription {key[1]} of {key[0]}")
        homes = self.streams.homes
        path = _path(homes.get(source), homes.get(key[0]), self._neighbours())
        return why_not(event, key, self.streams, self._console.board, path).as_json()

    async def _desk(self) -> PlanDesk:
        if self._planning is None:
            raise InputError(f"more than {_PREDICTED_MAX:,} clients: predict with `holdfast plan`, apart from the run")
        return await asyncio.shield(self._planning)

    async def _plan(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return (await self._desk()).about()

    async def _tried(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return await asyncio.to_thread((await self._desk()).tried, given)

    def _neighbours(self) -> dict[str, list[str]]:
        """As the brokers are linked now: one that was replaced is not there any more."""
        board = self._console.board
        found: dict[str, list[str]] = {}
        links = [board.get(key) for key in board.keys("link/")]
        gone = {name for name, replica in self._live.standing.items() if name in self._live.down}
        for link in links:
            if link is not None and not {link["a"], link["b"]} & gone:
                found.setdefault(link["a"], []).append(link["b"])
                found.setdefault(link["b"], []).append(link["a"])
        return found

    def _topology(self) -> RoutingGraph:
        advertised: dict[str, tuple[Any, ...]] = {}
        for client in self._network.clients:
            home = self.streams.homes.get(client.id, client.broker)
            advertised[home] = advertised.get(home, ()) + tuple(parse(each) for each in client.advertisements)
        return RoutingGraph(self._neighbours(), self._network.routing, advertised)


_VIEWS = ("map", "streams", "ask", "try", "plan")


async def _explain(given: Mapping[str, Any]) -> dict[str, Any]:
    return explained(given)


def _path(start: str | None, end: str | None, neighbours: Mapping[str, Sequence[str]]) -> list[str]:
    """The fewest brokers from one to another; empty when there is no way."""
    if start is None or end is None:
        return []
    came_from: dict[str, str | None] = {start: None}
    waiting = [start]
    while waiting:
        at = waiting.pop(0)
        for each in neighbours.get(at, ()):
            if each not in came_from:
                came_from[each] = at
                waiting.append(each)
    path: list[str] = []
    step: str | None = end if end in came_from else None
    while step is not None:
        path.append(step)
        step = came_from[step]
    return path[::-1]


def _promised(network: Network) -> Promised:
    of = network.reliability
    order = of.guarantees.order
    mode = "none" if order is None else str(asdict(order).get("mode", "fifo"))
    return Promised(mode, of.guarantees.recovery is not None, of.hops.durable, network.replication is not None)
