"""Compile what numba compiles before somebody waits for it: `holdfast doctor --compile`.

Each kernel is used once, on an input as small as it may be. numba keeps the machine code beside our files or, where it
may not write there, in the user's cache folder (or NUMBA_CACHE_DIR); later processes load it in no time.
"""

from collections.abc import Callable

# Conditions for each of the matcher's ways: a run sorted by a bound, filters checked one by one, by bitmaps and by
# blocks (with lines and, of many events, side by side), a few side by side, texts.
_SORTED = [f"price < {bound} AND symbol = 'S1'" for bound in range(40)]
_TESTED = [f"price < {bound} AND volume > {bound} AND age >= {bound}" for bound in range(600)]
_WIDE = [f"symbol = 'S2' AND price < {bound} AND volume > {bound}" for bound in range(1_200)]
_ABREAST = [f"symbol = 'S3' AND price < {bound} AND volume > {bound}" for bound in range(20)]
_TEXTS = ["name LIKE 'a%b%c'", "name LIKE '%b'", "name = 'abc'"]


def compile_matching() -> None:
    import pyarrow as pa

    from holdfast.matching.block_columns import COLUMN_EVENTS_MIN
    from holdfast.matching.levels import load_kernels
    from holdfast.matching.matcher import Matcher, match_grouped

    load_kernels()  # those that brokers use
    matcher = Matcher()
    for number, condition in enumerate([*_SORTED, *_TESTED, *_WIDE, *_ABREAST, *_TEXTS]):
        matcher.add(number, condition)
    for numbers, times in ((pa.int64(), 1), (pa.float64(), COLUMN_EVENTS_MIN)):
        columns = {name: pa.array([1, 30, 5] * times, numbers) for name in ("price", "volume", "age")}
        texts = {"symbol": ["S1", "S2", "S3"] * times, "name": ["abc", None, "b"] * times}
        table = pa.table({**columns, **texts})
        matcher.match_batch(table)
        for runs in match_grouped(matcher, table).runs:
            runs.pairs()
    matcher.match({"price": 1, "volume": 2, "symbol": "S2", "name": "abc"})


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
    from holdfast.planner.pairs import Predictor
    from holdfast.planner.plan import case_of, predict

    case = case_of(parse_text(preset_text("planning-10"), "planning-10", {}))
    list(predict(case, Predictor(case.overlay, 100, "compile")))


STEPS: dict[str, Callable[[], None]] = {
    "matcher": compile_matching,
    "simulator": compile_simulator,
    "planner": compile_planner,
}
