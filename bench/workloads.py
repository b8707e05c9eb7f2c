"""The work that every contestant is given: a table of events and conditions on them, from fixed seeds.

`stock` is the shared workload that the naive baseline knows. Three of our own ask for what it does not:
`equality` has a value space so large that nearly every lookup misses, `ranges` has nothing to hash at all,
and `strings` has text with NULLs under every string operator, NOT and OR. Each states the share of events
that a condition should match on average, because a matcher's cost follows its output and a workload without
matches flatters everyone.
"""

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from bench.conditions import And, Atom, Not, Or, Tree, text

Dice = np.random.Generator

SEED = 7
REPOSITORY = Path(__file__).resolve().parents[1]
SHARED = REPOSITORY.parent / "shared" / "workloads"


@dataclass(frozen=True)
class Workload:
    name: str
    table: pa.Table
    trees: list[Tree]

    @cached_property
    def texts(self) -> list[str]:
        return [text(tree) for tree in self.trees]

    @cached_property
    def ids(self) -> list[str]:
        return [f"q{i}" for i in range(len(self.trees))]

    @property
    def size(self) -> tuple[int, int]:
        return self.table.num_rows, len(self.trees)

    def part(self, events: int, subscriptions: int) -> "Workload":
        return Workload(self.name, self.table.slice(0, events), self.trees[:subscriptions])


# The average share of events that one condition matches: below, a workload is empty; above, it is a copy.
SELECTIVITY = {
    "stock": (0.003, 0.03),
    "equality": (0.000_01, 0.000_1),
    "ranges": (0.003, 0.012),
    "strings": (0.001, 0.02),
    "wide": (0.000_05, 0.000_2),
    "fleet": (0.000_5, 0.005),
}


def load_stock(folder: Path) -> ModuleType | None:
    """The shared generator, or None when the folder is not beside the repository."""
    source = folder / "stock.py"
    if not source.is_file():
        return None
    spec = importlib.util.spec_from_file_location("shared_stock", source)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    keep, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # the folder is not ours to write in
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = keep
    return module


def stock(module: ModuleType, events: int, subscriptions: int, seed: int = SEED) -> Workload:
    table, filters = module.generate(events, subscriptions, seed)
    return Workload("stock", table, [_stock_tree(each) for each in filters])


def _stock_tree(filter_: list[tuple[str, str, Any]]) -> Tree:
    return And(tuple(Atom(a, op, v + "%" if op == "LIKE" else v) for a, op, v in filter_))


def _skewed(rng: Dice, values: int, size: int, skew: float = 1) -> np.ndarray[Any, Any]:
    """Numbers below `values`, the n-th in proportion to 1/n**skew, as names and topics are in practice."""
    weights = 1 / np.arange(1, values + 1) ** skew
    return rng.choice(values, size, p=weights / weights.sum())


def equality(events: int, subscriptions: int, seed: int = SEED) -> Workload:
    rng = np.random.default_rng(seed)
    kinds = ["view", "click", "buy", "refund"]
    columns: dict[str, tuple[int, float, Callable[[int], str | int]]] = {  # values, skew, how one is written
        "account": (60_000, 0, lambda i: 100_000 + i),
        "item": (30_000, 0.5, lambda i: f"item-{i:05}"),
        "city": (5_000, 0.5, lambda i: f"city {i}"),
        "device": (400, 0.5, lambda i: f"D{i:03}"),
        "kind": (4, 1, lambda i: kinds[i]),
    }
    table = pa.table({
        name: [value(int(i)) for i in _skewed(rng, count, events, skew)]
        for name, (count, skew, value) in columns.items()
    })  # fmt: skip
    shapes = [("account",), ("item",), ("item", "city"), ("account", "kind"), ("city", "device", "kind")]
    wanted = {name: _skewed(rng, count, subscriptions, skew) for name, (count, skew, _) in columns.items()}
    shape_of = rng.integers(0, len(shapes), subscriptions)
    trees: list[Tree] = []
    for i in range(subscriptions):
        atoms = tuple(Atom(name, "=", columns[name][2](int(wanted[name][i]))) for name in shapes[shape_of[i]])
        trees.append(And(atoms))
    return Workload("equality", table, trees)


def ranges(events: int, subscriptions: int, seed: int = SEED) -> Workload:
    """Each condition aims at a share of 0.1 to 2 %, spread evenly over the 2 to 4 attributes it names."""
    rng = np.random.default_rng(seed)
    draw: dict[str, Callable[[int], np.ndarray[Any, Any]]] = {
        "price": lambda n: np.round(np.exp(rng.normal(4, 1, n)), 2),
        "volume": lambda n: rng.integers(1, 1_000_000, n),
        "temperature": lambda n: np.round(rng.normal(15, 9, n), 2),
        "delay": lambda n: np.round(rng.exponential(40, n), 3),
    }
    names = list(draw)
    sorted_sample = {name: np.sort(draw[name](20_000)) for name in names}
    table = pa.table({name: draw[name](events) for name in names})
    trees: list[Tree] = []
    for _ in range(subscriptions):
        named = [names[i] for i in sorted(rng.choice(4, rng.integers(2, 5), replace=False))]
        share = np.exp(rng.uniform(np.log(0.001), np.log(0.02))) ** (1 / len(named))
        trees.append(And(tuple(a for name in named for a in _range(rng, name, sorted_sample[name], share))))
    return Workload("ranges", table, trees)


def _range(rng: Dice, name: str, sample: np.ndarray[Any, Any], share: float) -> tuple[Atom, ...]:
    """One test or two that hold for that share of the sample: below, above, between."""

    def at(quantile: float) -> int | float:
        value: int | float = sample[min(int(quantile * len(sample)), len(sample) - 1)].item()
        return value

    kind, strict = rng.integers(0, 4), rng.integers(0, 2)
    if kind == 0:
        return (Atom(name, "<" if strict else "<=", at(share)),)
    if kind == 1:
        return (Atom(name, ">" if strict else ">=", at(1 - share)),)
    start = rng.uniform(0, 1 - share)
    if kind == 2 and not strict:
        return (Atom(name, "BETWEEN", (at(start), at(start + share))),)
    return Atom(name, ">" if strict else ">=", at(start)), Atom(name, "<", at(start + share))


def wide(events: int, subscriptions: int, seed: int = SEED) -> Workload:
    """Ten ranges on ten of twenty attributes, each of which two events in five pass: as `bench wide_ranges` has it."""
    rng = np.random.default_rng(seed)
    names = [f"a{i}" for i in range(20)]
    table = pa.table({name: rng.integers(1, 1_000_001, events) for name in names})
    trees: list[Tree] = []
    for _ in range(subscriptions):
        named = rng.choice(20, 10, replace=False).tolist()
        lows = rng.integers(1, 600_001, 10).tolist()
        trees.append(
            And(tuple(Atom(names[i], "BETWEEN", (at, at + 400_000)) for i, at in zip(named, lows, strict=True)))
        )
    return Workload("wide", table, trees)


_SYLLABLES = "ba ce di fo gu ha je ki lo mu na pe ri so tu va we xi yo zu".split()
_LEVELS = ["debug", "info", "notice", "warning", "error", "fatal"]


def _words(rng: Dice, count: int) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(rng.choice(_SYLLABLES, rng.integers(2, 5)))] = None
    return list(found)


def strings(events: int, subscriptions: int, seed: int = SEED) -> Workload:
    rng = np.random.default_rng(seed)
    words = _words(rng, 1_200)
    roles, regions, teams, verbs = words[:40], words[40:60], words[60:360], words[360:]
    ends = ["org", "net", "net"]
    hosts = [f"{roles[i % 40]}-{regions[i // 40 % 20]}-{i:04}.{ends[i % 3]}" for i in range(2_000)]

    def phrase(between: str, least: int, most: int) -> str:
        return between.join(verbs[i] for i in rng.integers(0, len(verbs), rng.integers(least, most + 1)))

    paths = ["/" + phrase("/", 1, 3) + (".json" if i % 4 else "") for i in range(6_000)]
    notes = [phrase(" ", 2, 5) for _ in range(20_000)]
    level_weights = np.array([30, 40, 12, 10, 7, 1]) / 100

    def column(pool: list[str], drawn: np.ndarray[Any, Any], missing: float) -> list[str | None]:
        gone = rng.random(events) < missing
        return [None if g else pool[i] for i, g in zip(drawn, gone, strict=True)]

    table = pa.table({
        "host": pa.array(column(hosts, _skewed(rng, len(hosts), events), 0.02), pa.string()),
        "path": pa.array(column(paths, _skewed(rng, len(paths), events), 0.05), pa.string()),
        "team": pa.array(column(teams, _skewed(rng, len(teams), events), 0.20), pa.string()),
        "level": pa.array(column(_LEVELS, rng.choice(6, events, p=level_weights), 0.01), pa.string()),
        "note": pa.array(column(notes, rng.integers(0, len(notes), events), 0.10), pa.string()),
    })  # fmt: skip
    pools = {"host": hosts, "path": paths, "team": teams, "verb": verbs, "role": roles, "region": regions}
    return Workload("strings", table, [_string_tree(rng, pools) for _ in range(subscriptions)])


def _string_tree(rng: Dice, pools: dict[str, list[str]]) -> Tree:
    def some(pool: str) -> str:
        return pools[pool][rng.integers(0, len(pools[pool]))]

    def several(pool: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(some(pool) for _ in range(rng.integers(2, 6))))

    prefix = Atom("host", "LIKE", f"{some('role')}-{some('region')}-%")
    suffix = Atom("host", "LIKE", "%" + some("host")[-7:])
    head = Atom("path", "LIKE", "/" + some("verb")[:4] + "%")
    contains = Atom("note", "LIKE", f"%{some('verb')}%")
    info = Atom("level", "=", "info")
    bad = Atom("level", "IN", ("error", "fatal"))
    shapes: list[Callable[[], Tree]] = [
        lambda: And((prefix, Atom("level", "<>", "debug"))),
        lambda: And((suffix, bad)),
        lambda: And((contains, Not(Atom("level", "IN", ("debug", "info"))))),
        lambda: And((Atom("team", "IN", several("team")), bad)),
        lambda: And((Atom("team", "IS NULL"), head)),
        lambda: And((Atom("team", "=", some("team")), Atom("path", "LIKE", "%.json"))),
        lambda: Or((Atom("team", "=", some("team")), And((prefix, contains)))),
        lambda: And((Or((head, contains)), Atom("team", "IS NOT NULL"), Not(info))),
        lambda: And((Not(Or((Atom("team", "LIKE", some("team")[:2] + "%"), info))), contains)),
        lambda: Or((suffix, And((Atom("host", "IS NULL"), head)))),
    ]
    return shapes[rng.integers(0, len(shapes))]()


OURS = {"equality": equality, "ranges": ranges, "strings": strings, "wide": wide}
