"""Compile what numba compiles before somebody waits for it: `holdfast doctor --compile`.

Each kernel is used once, on an input as small as it may be. numba keeps the machine code beside our files or, where it
may not write there, in the user's cache folder (or NUMBA_CACHE_DIR); later processes load it in no time.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

# Conditions for each of the matcher's ways: a run sorted by a bound, filters checked one by one, by bitmaps and by
# blocks (with lines and, of many events, side by side), a few side by side, texts.
_SORTED = [f"price < {bound} AND symbol = 'S1'" for bound in range(40)]
_TESTED = [f"price < {bound} AND volume > {bound} AND age >= {bound}" for bound in range(600)]
_WIDE = [f"symbol = 'S2' AND price < {bound} AND volume > {bound}" for bound in range(1_200)]
_ABREAST = [f"symbol = 'S3' AND price < {bound} AND volume > {bound}" for bound in range(12)]  # more get a bitmap
_TEXTS = ["name LIKE 'a%b%c'", "name LIKE '%b'", "name = 'abc'"]
_ALL = [*_SORTED, *_TESTED, *_WIDE, *_ABREAST, *_TEXTS]


def _events(is_float: bool, times: int) -> "pa.Table":
    import pyarrow as pa

    numbers = pa.float64() if is_float else pa.int64()
    values = {"price": [1, 30, 5], "volume": [900, 900, 2], "age": [900, 900, 2]}
    columns = {name: pa.array(each * times, numbers) for name, each in values.items()}
    return pa.table({**columns, "symbol": ["S1", "S2", "S3"] * times, "name": ["abc", None, "b"] * times})


def compile_matching() -> None:
    from holdfast.matching.block_columns import COLUMN_EVENTS_MIN
    from holdfast.matching.levels import load_kernels
    from holdfast.matching.matcher import Matcher, match_grouped

    load_kernels()  # those that brokers use
    matcher = Matcher()
    for number, condition in enumerate(_ALL):
        matcher.add(number, condition)
    for is_float, times in ((False, 1), (True, COLUMN_EVENTS_MIN)):
        table = _events(is_float, times)
        matcher.match_batch(table)
        for runs in match_grouped(matcher, table).runs:
            runs.pairs()
    matcher.match({"price": 1, "volume": 2, "symbol": "S2", "name": "abc"})


def compile_pairs() -> None:
    """What `holdfast match` and its tasks on Spark find is written down, or counted."""
    import json
    from pathlib import Path
    from tempfile import TemporaryDirectory

    import pyarrow.parquet as pq

    from holdfast.matching.block_columns import COLUMN_EVENTS_MIN
    from holdfast.pipeline.match.embedded import EmbeddedMatch

    with TemporaryDirectory(prefix="holdfast-compile-") as folder:
        events, wishes = Path(folder, "events.parquet"), Path(folder, "wishes.jsonl")
        rows = [json.dumps({"id": f"{at}", "condition": each}) for at, each in enumerate(_ALL)]
        wishes.write_text("\n".join(rows))
        for is_float in (False, True):
            pq.write_table(_events(is_float, COLUMN_EVENTS_MIN), events)
            for counts in (False, True):
                out = str(Path(folder, f"out {is_float} {counts}"))
                kept = () if counts else ("symbol", "name", "price")
                EmbeddedMatch(str(events), str(wishes), out, keep=kept, counts=counts).run()


def compile_simulator() -> None:
    from holdfast.network.load import parse_text
    from holdfast.network.presets import preset_text
    from holdfast.sim.simulator import Simulation

    gossip = {"reliability.gossip": "reconcile", "reliability.gossip_transfer": "direct", "links.lossy_control": False}
    for reliability in ({}, {"reliability.hops": "nack"}, gossip):
        settings = {"duration_s": 1.0, **reliability}
        Simulation(parse_text(preset_text("quickstart"), "quickstart", settings)).run(None)


def compile_planner() -> None:
    from holdfast.network.load import parse_text
    from holdfast.network.presets import preset_text
    from holdfast.planner.pairs import EXACT_BROKERS_MAX, Predictor
    from holdfast.planner.plan import case_of, predict

    case = case_of(parse_text(preset_text("planning-10"), "planning-10", {}))
    list(predict(case, Predictor(case.overlay, 100, "compile")))
    settings = {"topology.brokers": EXACT_BROKERS_MAX + 1}  # where worlds are drawn
    large = case_of(parse_text(preset_text("planning-10"), "planning-10", settings))
    Predictor(large.overlay, 100, "compile").to(0, [(1, 3_600.0)])


STEPS: dict[str, Callable[[], None]] = {
    "matcher": compile_matching,
    "pairs": compile_pairs,
    "simulator": compile_simulator,
    "planner": compile_planner,
}
