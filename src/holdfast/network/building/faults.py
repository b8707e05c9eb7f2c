"""Faults: from what the file says to single things that happen, in the order of time.

`for_s` becomes a second fault that ends the first, and a partition becomes the links that it cuts, so that drivers
know only a few kinds.
"""

from collections.abc import Iterator

from holdfast.model.validation import did_you_mean
from holdfast.network.building.clients import Draft
from holdfast.network.building.graph import Graph, known_broker
from holdfast.network.keys.root import ROOT
from holdfast.network.problems import KeyPath, Problems
from holdfast.network.schema import Fault
from holdfast.network.tables import Repeated, Values

Pair = tuple[str, str]


def build_faults(values: Values, graph: Graph | None, drafts: list[Draft], problems: Problems) -> tuple[Fault, ...]:
    shape = ROOT.all_keys["fault"].shape
    assert isinstance(shape, Repeated)
    entries = list(shape.entries(values["fault"], ("fault",), problems))
    if graph is None:
        return ()
    maker = _Maker(graph, drafts, problems)
    faults: list[Fault] = []
    for number, entry in enumerate(entries):
        if not problems.within("fault", number):
            made = list(maker.faults(entry, number))
            if entry["at_us"] < values["duration_us"]:
                faults += made
            else:  # then it is only waited for what is on its way
                problems.warn(("fault", number), f"at {entry['at_us'] / 1_000_000:g} s the run is over; left out")
    return tuple(sorted(faults, key=lambda fault: fault.at_us))


class _Maker:
    def __init__(self, graph: Graph, drafts: list[Draft], problems: Problems) -> None:
        self._brokers = {broker.id: None for broker in graph.brokers}
        self._links = {pair: (link.a, link.b) for link in graph.links for pair in ((link.a, link.b), (link.b, link.a))}
        self._clients = {draft.id: draft for draft in drafts}
        self._replaced: dict[Pair, None] = {}
        self._problems = problems
        self._links_known = not problems.within("topology") and not problems.within("link")

    def faults(self, entry: Values, number: int) -> Iterator[Fault]:
        path: KeyPath = ("fault", number)
        at_us, kind = entry["at_us"], entry["kind"]
        if not self._links_known and kind in ("link-down", "link-up", "link-replace", "partition"):
            return
        match kind:
            case "crash" | "restart":
                if known_broker(entry["broker"], self._brokers, (*path, "broker"), self._problems):
                    yield from _until(entry, "restart", Fault(at_us, kind, broker=entry["broker"]))
            case "hang" | "resume":
                if known_broker(entry["broker"], self._brokers, (*path, "broker"), self._problems):
                    yield from _until(entry, "resume", Fault(at_us, kind, broker=entry["broker"]))
            case "link-down" | "link-up":
                if link := self._link(entry["link"], path):
                    yield from _until(entry, "link-up", Fault(at_us, kind, link=link))
            case "link-replace":
                yield from self._replacement(entry, path)
            case "partition":
                yield from self._partition(entry, path)
            case _:
                yield from self._of_client(entry, number, path)

    def _link(self, found: list[str], path: KeyPath) -> Pair | None:
        a, b = found
        if (a, b) in self._links:
            return self._links[a, b]
        both = [
            known_broker(each, self._brokers, (*path, "link", number), self._problems)
            for number, each in enumerate((a, b))
        ]
        if all(both):
            self._problems.add((*path, "link"), f'there is no link between "{a}" and "{b}"', self._other_end(a))
        return None

    def _other_end(self, broker: str) -> str:
        others = [b for a, b in self._links if a == broker]
        return f'"{broker}" has links with {", ".join(others[:8])}' if others else ""

    def _replacement(self, entry: Values, path: KeyPath) -> Iterator[Fault]:
        link = self._link(entry["link"], path)
        if link is None:
            return
        if link in self._replaced:
            self._problems.add((*path, "link"), "this link has been replaced by an earlier fault")
        self._replaced[link] = None
        to = None
        if entry["to"] is not None:
            a, b = to = tuple(entry["to"])
            for number, each in enumerate(to):
                known_broker(each, self._brokers, (*path, "to", number), self._problems)
            if a == b or to in self._links:
                self._problems.add((*path, "to"), f'"{a}" and "{b}" are one broker, or linked already')
        yield Fault(entry["at_us"], "link-replace", link=link, to=to, after_us=entry["after_us"])

    def _partition(self, entry: Values, path: KeyPath) -> Iterator[Fault]:
        inside = dict.fromkeys(entry["brokers"])
        for number, each in enumerate(entry["brokers"]):
            known_broker(each, self._brokers, (*path, "brokers", number), self._problems)
        cut = [
            pair for pair, link in self._links.items() if pair == link and (pair[0] in inside) != (pair[1] in inside)
        ]
        if not cut:
            self._problems.add((*path, "brokers"), "this cuts no link", "name some of the brokers, not none or all")
        for link in cut:
            yield from _until(entry, "link-up", Fault(entry["at_us"], "link-down", link=link))

    def _of_client(self, entry: Values, number: int, path: KeyPath) -> Iterator[Fault]:
        client, kind, at_us = entry["client"], entry["kind"], entry["at_us"]
        draft = self._clients.get(client)
        if draft is None:
            hint = did_you_mean(client, self._clients)
            self._problems.add((*path, "client"), f'there is no client "{client}"', hint)
            return
        home = draft.broker
        if kind == "client-detach":
            yield Fault(at_us, kind, client=client)
            if entry["for_us"] is not None:
                yield Fault(at_us + entry["for_us"], "client-attach", broker=home, client=client)
        elif kind == "client-attach":
            broker = entry["broker"] or home
            if known_broker(broker, self._brokers, (*path, "broker"), self._problems):
                yield Fault(at_us, kind, broker=broker, client=client)
        elif kind == "subscribe":
            name = entry["id"] or f"f{number}"
            yield Fault(at_us, kind, client=client, subscription=name, condition=entry["condition"])
        else:
            yield Fault(at_us, kind, client=client, subscription=entry["id"])


def _until(entry: Values, ends: str, fault: Fault) -> Iterator[Fault]:
    yield fault
    if entry.get("for_us") is not None:
        assert ends in ("restart", "resume", "link-up")
        yield Fault(fault.at_us + entry["for_us"], ends, broker=fault.broker, link=fault.link)  # type: ignore[arg-type]
