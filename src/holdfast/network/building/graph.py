"""Brokers and links of a network.

The graph is made to order or taken from the file. Each broker and link has the settings of all, its own on top of
them, and draws for itself what the file gives as [low, high]. Then the graph is checked as a whole.
"""

from collections.abc import Iterable
from random import Random
from typing import Any, NamedTuple

from holdfast.model.validation import did_you_mean
from holdfast.network import topology
from holdfast.network.graph import a_cycle, components, neighbours_of
from holdfast.network.keys.declared import fields_of
from holdfast.network.keys.graph import FAILURES
from holdfast.network.keys.root import ROOT
from holdfast.network.limits import BROKERS_MAX, LINKS_MAX
from holdfast.network.problems import KeyPath, Problems
from holdfast.network.schema import BrokerSpec, Burst, LinkSpec
from holdfast.network.shapes import Between
from holdfast.network.tables import Repeated, Values

_FAILURE_FIELDS = frozenset(key.field for key in FAILURES)
_NAMES_SHOWN_MAX = 8  # of the brokers that cannot be reached

Pair = tuple[str, str]


class Graph(NamedTuple):
    brokers: tuple[BrokerSpec, ...]
    links: tuple[LinkSpec, ...]

    def neighbours(self) -> dict[str, list[str]]:
        return neighbours_of((each.id for each in self.brokers), ((each.a, each.b) for each in self.links))


def build_graph(values: Values, seed: int, problems: Problems) -> Graph | None:
    """None when the brokers cannot be told; then nothing that names one can be checked either."""
    own_brokers = _entries("broker", values, problems)
    names = _broker_names(values["topology"], own_brokers, problems)
    if names is None:
        return None
    brokers = _brokers(names, values["brokers"], own_brokers, seed, problems)
    own_links = _entries("link", values, problems)
    pairs = _pairs(list(names), values["topology"], own_links, seed, problems)
    return Graph(brokers, _links(pairs, values["links"], own_links, seed, problems))


def _entries(name: str, values: Values, problems: Problems) -> list[Values]:
    """What each [[broker]] or [[link]] says itself; what it leaves out is said by [brokers] or [links]."""
    shape = ROOT.all_keys[name].shape
    assert isinstance(shape, Repeated)
    return list(shape.entries(values[name], (name,), problems, only_own=True))


def _broker_names(settings: Values, own: list[Values], problems: Problems) -> dict[str, None] | None:
    if any(problems.within("topology", name) for name in ("kind", "brokers", "prefix")):
        return None
    asked = settings["brokers"]
    listed = settings["kind"] == "listed"
    if asked is None and not listed:
        problems.add(("topology",), '"brokers" is missing', "such as brokers = 12")
        return None
    if isinstance(asked, int):
        asked = [f"{settings['prefix']}{number}" for number in range(1, asked + 1)]
    names: dict[str, None] = {}
    for number, name in enumerate(asked or ()):
        if name in names:
            problems.add(("topology", "brokers", number), f'there are two brokers called "{name}"')
        names[name] = None
    seen: set[str] = set()
    for number, entry in enumerate(own):
        name = entry.get("id")
        if name in seen:
            problems.add(("broker", number, "id"), f'there are two [[broker]] tables for "{name}"')
        elif name is not None:
            seen.add(name)
            if asked is None or known_broker(name, names, ("broker", number, "id"), problems):
                names[name] = None
    if not names:
        problems.add(("topology",), "there are no brokers", "such as brokers = 12, or a [[broker]] for each")
        return None
    if len(names) > BROKERS_MAX:
        problems.add(("broker",), f"{len(names):,} brokers; the limit is {BROKERS_MAX:,}")
        return None
    return names


def known_broker(name: str, names: Iterable[str], path: KeyPath, problems: Problems) -> bool:
    names = names if isinstance(names, dict) else dict.fromkeys(names)
    if name in names:
        return True
    few = f"there are {', '.join(names)}" if len(names) <= _NAMES_SHOWN_MAX else ""
    problems.add(path, f'there is no broker "{name}"', did_you_mean(name, names) or few)
    return False


def _brokers(
    names: Iterable[str], base: Values, own: list[Values], seed: int, problems: Problems
) -> tuple[BrokerSpec, ...]:
    _check_failures(base, ("brokers",), problems)
    settings: dict[str, Values] = {}
    places: dict[str, str] = {}
    for number, entry in enumerate(own):
        _check_failures(entry, ("broker", number), problems)
        listen, name = entry.get("listen"), entry.get("id", "")
        if listen and not listen.endswith(":0") and places.setdefault(listen, name) != name:
            problems.add(
                ("broker", number, "listen"), f'"{places[listen]}" listens at {listen} already', "take another"
            )
        settings[entry.get("id", "")] = entry
    specs = []
    for name in names:
        drawn = _drawn(_merged(base, settings.get(name, {})), f"{seed}/{name}/settings")
        mtbf_us, mttr_us = _up_and_down(drawn)
        own_fields = fields_of(BrokerSpec, drawn)
        specs.append(BrokerSpec(name, **own_fields, mtbf_us=mtbf_us, mttr_us=mttr_us, listen=drawn.get("listen")))
    return tuple(specs)


def _pairs(names: list[str], settings: Values, own: list[Values], seed: int, problems: Problems) -> dict[Pair, None]:
    pairs: dict[Pair, None] = {}
    if settings["kind"] != "listed":
        pairs = dict.fromkeys((names[a], names[b]) for a, b in _made(len(names), settings, seed, problems))
    for number, (a, b) in enumerate(settings.get("links") or ()):
        path: KeyPath = ("topology", "links", number)
        if (a, b) in pairs or (b, a) in pairs:
            problems.add(path, f'"{a}" and "{b}" are linked twice')
        elif _possible(a, b, names, path, problems):
            pairs[a, b] = None
    linked = dict(pairs)
    for number, entry in enumerate(own):
        a, b = entry.get("between", ("", ""))
        if (a, b) not in linked and (b, a) not in linked and a:
            path = ("link", number, "between")
            if _possible(a, b, names, path, problems):
                if settings["kind"] == "listed":
                    pairs[a, b] = linked[a, b] = None
                else:
                    problems.add(path, f'"{a}" and "{b}" have no link in this {settings["kind"]}')
    if len(pairs) > LINKS_MAX:
        problems.add(("topology",), f"{len(pairs):,} links; the limit is {LINKS_MAX:,}")
    return pairs


def _possible(a: str, b: str, names: list[str], path: KeyPath, problems: Problems) -> bool:
    known = dict.fromkeys(names)
    both = [known_broker(name, known, (*path, number), problems) for number, name in enumerate((a, b))]
    if a == b:
        problems.add(path, f'a link from "{a}" to itself')
    return all(both) and a != b


def _made(brokers: int, settings: Values, seed: int, problems: Problems) -> topology.Pairs:
    dice = Random(f"{seed}/topology")
    match settings["kind"]:
        case "line":
            return topology.line(brokers)
        case "star":
            return topology.star(brokers)
        case "ring":
            if brokers < 3:
                problems.add(("topology", "brokers"), f"a ring of {brokers}, expected at least 3", 'or kind = "line"')
            return topology.ring(brokers)
        case "tree" if settings["shape"] == "filled":
            return topology.filled_tree(brokers, settings["degree"])
        case "tree":
            return topology.attached_tree(brokers, settings["degree"], dice)
    mean, least, most = settings["mean_degree"], 2 * (brokers - 1) / brokers, brokers - 1
    path: KeyPath = ("topology", "mean_degree")
    if not least <= mean <= most:
        message = f"{brokers} brokers cannot have {mean:g} links on average and all be connected"
        problems.add(path, message, f"from {least:.4g} to {most} is possible")
        return topology.line(brokers)
    if brokers * mean / 2 > LINKS_MAX:
        problems.add(path, f"{brokers * mean / 2:,.0f} links; the limit is {LINKS_MAX:,}")
        return topology.line(brokers)
    return topology.random_graph(brokers, mean, dice)


def _links(
    pairs: Iterable[Pair], base: Values, own: list[Values], seed: int, problems: Problems
) -> tuple[LinkSpec, ...]:
    _check_failures(base, ("links",), problems)
    _check_jitter(base, ("links",), problems)
    settings: dict[Pair, Values] = {}
    for number, entry in enumerate(own):
        if "between" in entry:
            a, b = entry["between"]
            if (a, b) in settings:
                problems.add(("link", number, "between"), f'there are two [[link]] tables for "{a}" and "{b}"')
            settings[a, b] = settings[b, a] = entry
        _check_failures(entry, ("link", number), problems)
        if "delay_us" in entry or "jitter_us" in entry:  # otherwise [links] has been told already
            _check_jitter(_merged(base, entry), ("link", number), problems)
    return tuple(_link(a, b, _merged(base, settings.get((a, b), {})), seed) for a, b in pairs)


def _check_jitter(values: Values, path: KeyPath, problems: Problems) -> None:
    if any(problems.within(*each, key) for each in (path, ("links",)) for key in ("delay_ms", "jitter_ms")):
        return
    delay, jitter = values["delay_us"], values["jitter_us"]
    if jitter.high > delay.low:
        message = f"a jitter of {jitter.high / 1_000:g} ms could make a delay of {delay.low / 1_000:g} ms negative"
        problems.add((*path, "jitter_ms"), message, "make it at most delay_ms")


def _link(a: str, b: str, values: Values, seed: int) -> LinkSpec:
    drawn = _drawn(values, f"{seed}/{a}-{b}/settings")
    mtbf_us, mttr_us = _up_and_down(drawn)
    burst = drawn["burst"]
    return LinkSpec(
        a,
        b,
        **fields_of(LinkSpec, drawn),
        burst=None if burst is None else Burst(*(burst[name] or 0.0 for name in ("to_bad", "to_good", "loss"))),
        mtbf_us=mtbf_us,
        mttr_us=mttr_us,
    )


def _merged(base: Values, own: Values) -> Values:
    if _FAILURE_FIELDS & own.keys():  # how it fails is said in one place as a whole
        base = {name: None if name in _FAILURE_FIELDS else value for name, value in base.items()}
    return base | own


def _drawn(values: Values, dice_name: str) -> dict[str, Any]:
    """One broker's or link's own value for each pair of bounds."""
    dice: Random | None = None
    drawn = {}
    for name, value in values.items():
        if isinstance(value, Between):
            if value.low < value.high:
                dice = dice or Random(dice_name)  # seeding takes longer than all the rest
                value = value.drawn(dice)
            else:
                value = value.low
        drawn[name] = value
    return drawn


def _check_failures(values: Values, path: KeyPath, problems: Problems) -> None:
    given = [key.name for key in FAILURES if values.get(key.field) is not None]
    wrong = any(problems.within(*path, key.name) for key in FAILURES)
    if given and given not in (["mtbf_s", "mttr_s"], ["availability", "cycle_s"]) and not wrong:
        found = " and ".join(given) if len(given) > 1 else f"{given[0]} alone"
        problems.add((*path, given[0]), f"found {found}", "give mtbf_s and mttr_s, or availability and cycle_s")


def _up_and_down(drawn: Values) -> tuple[int | None, int | None]:
    up, down = drawn.get("mtbf_us"), drawn.get("mttr_us")
    share, cycle = drawn.get("availability"), drawn.get("cycle_us")
    if share is not None and cycle is not None:
        up, down = share * cycle, (1 - share) * cycle
    if up is None or down is None or round(down) == 0:  # what is repaired in no time is always up
        return None, None
    return max(1, round(up)), round(down)


def check_graph(graph: Graph, routing: str, problems: Problems) -> None:
    """All brokers can reach each other, along a single way when the routing needs that."""
    if problems.within("topology") or problems.within("link"):
        return
    links = graph.neighbours()
    first, *others = components(links)
    if others:
        lost = [broker for part in others for broker in part]
        named = ", ".join(lost[:_NAMES_SHOWN_MAX]) + (", …" if len(lost) > _NAMES_SHOWN_MAX else "")
        message = f"the graph is in {len(others) + 1} parts: {first[0]} cannot reach {named}"
        problems.add(("topology",), message, f'add a link, such as ["{first[0]}", "{lost[0]}"]')
    cycle = a_cycle(links) if routing != "destinations" and not problems.within("routing") else []
    if cycle:
        message = f'routing = "{routing}" needs a tree, and {" - ".join(cycle)} is a cycle'
        problems.add(("routing",), message, 'take a link out, or write routing = "destinations"')
