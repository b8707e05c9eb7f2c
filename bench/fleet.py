"""The fleet workload: what people ask of vehicles, with LIKE, OR, NOT and attributes that are missing.

Events are reports of vehicles: some have no driver, most have no cold box and so no temperature. Conditions are those
of dispatchers, who watch a group of vehicles, and of workshops, who wait for trouble. Each aims at a share below 1 %.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from bench.conditions import And, Atom, Not, Or, Tree
from bench.workloads import SEED, Dice, Workload

_KINDS = ("truck", "van", "car", "bus")
_CITIES = 60
_VEHICLES = 5_000
_GOODS = ("milk", "fish", "paper", "steel", "cotton", "fruit", "glass", "parcels")


def _city(number: int) -> str:
    return f"c{number:02}"


def fleet(events: int, subscriptions: int, seed: int = SEED) -> Workload:
    rng = np.random.default_rng(seed)
    names = [f"{_KINDS[i % 4]}-{_city(i // 4 % _CITIES)}-{i:04}" for i in range(_VEHICLES)]
    which = rng.integers(0, _VEHICLES, events)
    goods = rng.integers(0, len(_GOODS), (events, 2))

    def sometimes(values: list[object], share: float) -> list[object]:
        there = rng.random(events) < share
        return [value if given else None for value, given in zip(values, there, strict=True)]

    table = pa.table({
        "vehicle": [names[i] for i in which],
        "kind": [_KINDS[i % 4] for i in which],
        "city": [_city(i) for i in rng.integers(0, _CITIES, events)],
        "driver": pa.array(sometimes([f"d{i:04}" for i in rng.integers(0, 2_000, events)], 0.8), pa.string()),
        "cargo": pa.array(sometimes([f"{_GOODS[a]}, {_GOODS[b]}" for a, b in goods], 0.7), pa.string()),
        "speed": np.round(rng.gamma(4, 14, events), 1),
        "fuel": np.round(rng.uniform(0, 100, events), 1),
        "temperature": pa.array(sometimes(np.round(rng.normal(4, 3, events), 1).tolist(), 0.3), pa.float64()),
        "moving": rng.random(events) < 0.8,
    })  # fmt: skip
    return Workload("fleet", table, [_condition(rng, names) for _ in range(subscriptions)])


def _condition(rng: Dice, names: list[str]) -> Tree:
    def number(low: float, high: float) -> float:
        return round(float(rng.uniform(low, high)), 1)

    city, other = (_city(int(each)) for each in rng.integers(0, _CITIES, 2))
    kind = _KINDS[rng.integers(0, 4)]
    goods = _GOODS[rng.integers(0, len(_GOODS))]
    vehicle = names[rng.integers(0, len(names))]
    here = Atom("city", "=", city)
    group = Atom("vehicle", "LIKE", vehicle.rpartition("-")[0] + "-%")
    fast = Atom("speed", ">", number(90, 140))
    empty = Atom("fuel", "<", number(2, 15))
    warm = Atom("temperature", ">", number(6, 12))
    shapes: list[Callable[[], Tree]] = [
        lambda: Atom("vehicle", "=", vehicle),
        lambda: And((group, Or((fast, empty)))),
        lambda: And((here, Or((warm, empty)))),
        lambda: And((here, Atom("driver", "IS NULL"), Atom("moving", "=", True))),
        lambda: And((Not(Or((Atom("kind", "=", kind), Atom("city", "IN", (city, other))))), fast, empty)),
        lambda: And((Atom("cargo", "LIKE", f"%{goods}"), Not(Atom("temperature", "<=", number(8, 11))))),
        lambda: And((Or((here, Atom("city", "=", other))), Atom("speed", "BETWEEN", (number(60, 70), number(71, 90))))),
        lambda: And((Atom("driver", "=", f"d{rng.integers(0, 2_000):04}"), Not(Atom("moving", "=", True)))),
        lambda: And((Atom("cargo", "IS NOT NULL"), Atom("kind", "<>", kind), here, empty)),
        lambda: And((Atom("vehicle", "LIKE", f"%-{vehicle[-2:]}"), Atom("driver", "IS NOT NULL"), fast)),
    ]
    return shapes[rng.integers(0, len(shapes))]()
