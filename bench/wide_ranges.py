"""Wide ranges: conditions that no access predicate helps with, each with ten ranges that hold for two events in five.

    python -m bench.wide_ranges [--json] [--quick] [--save | --redraw] [--sizes N ...] [--parts PART ...]

Twenty integer attributes from 1 to 1,000,000, and in each condition `low <= a <= low + 400,000` on ten of them, drawn
at random. Then other widths, and other numbers of constraints and attributes. All times are CPU time of all threads;
everybody uses one, except Polars. A peer that would take too long gets a part of the conditions and events, its time is
scaled in proportion, and on its part it must find as many pairs as Holdfast does there. With --save each part is kept
when it is done, beside the others, so that a long run can be made in pieces.
"""

import gc
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from time import process_time
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.command import keep, options, redraw, show
from bench.results import load, machine, saved_at
from bench.rounds import Disagreement, say
from bench.wide_peers import PEERS, Boxes, Shape, Timed
from holdfast.language.constraint import Constraint
from holdfast.language.subscription import Subscription
from holdfast.matching.columns import Columns, Pairs
from holdfast.matching.few import Few
from holdfast.matching.gathering import Ranges
from holdfast.matching.layout import compile_image
from holdfast.matching.matcher import Matcher
from holdfast.matching.slots import ConstantEdges, Slot, SlotKind

SIZES = (10_000, 200_000, 1_000_000, 9_000_000)
OBJECTS_MAX = 1_000_000  # conditions that come as filters, one by one; more go to the compiler as arrays
EVENTS = 4_000  # of a batch
SINGLE = 200  # events that are matched one by one
ROUNDS = 2
SHAPED = 100_000  # conditions of the other shapes
CHANGES = 2_000
MADE_AT_ONCE = 1_000  # conditions whose numbers are Python objects at a time: all of them would take gigabytes
PARTS = ("rows", "peers", "churn", "shapes")

# What a size has to reach: milliseconds an event in batches and alone, megabytes, seconds to compile.
TARGETS = {
    1_000_000: {"batch_ms": 0.25, "single_ms": 0.5, "matcher_mb": 600.0, "compile_s": 60.0},
    9_000_000: {"batch_ms": 2.5},
}
CHANGES_PER_S = 20_000
SPREAD_MAX = 3.0  # how many times slower per condition than the best shape

_compiled: Callable[[Any], Any] = nb.njit(cache=True)


class _Arrays:
    """Boxes as the compiler's first step leaves conditions: ranges of codes."""

    def __init__(self, boxes: Boxes) -> None:
        self.shape = boxes.shape
        self.extras: list[Any] = []
        self.patterns: dict[str, Any] = {}
        self.pattern_columns: list[int] = []
        self.filter_count = boxes.shape.conditions
        self.filter_subscription = np.arange(self.filter_count, dtype=np.int32)
        self.repeated = np.zeros(self.filter_count, np.uint8)
        self.slots = [Slot(name, SlotKind.NUMBER) for name in boxes.names]
        slot = boxes.slots.reshape(-1)
        low, high = np.empty(slot.size, np.int32), np.empty(slot.size, np.int32)
        for at, (_, lows, highs) in enumerate(boxes.by_attribute):
            distinct, ranks = np.unique(np.concatenate([lows, highs]).astype(np.float64), return_inverse=True)
            self.slots[at].count = distinct.size
            self.slots[at].edges = {"float64": ConstantEdges(distinct, np.ones(distinct.size, np.uint8), 0)}
            low[slot == at], high[slot == at] = 2 * ranks[: lows.size] + 1, 2 * ranks[lows.size :] + 1
        owners = np.repeat(self.filter_subscription, boxes.shape.constraints)
        self._ranges = Ranges(owners, slot, low, high, np.zeros(slot.size, bool))

    def ranges(self) -> Ranges:
        return self._ranges

    def patterns_on(self, slot: int) -> int:
        return 0


def columns_of(boxes: Boxes) -> Columns:
    gathered: Any = _Arrays(boxes)
    return Columns(compile_image(gathered), gathered.slots, [], boxes.shape.conditions)


def filters_of(boxes: Boxes) -> Iterator[tuple[tuple[Constraint, ...], ...]]:
    names = boxes.names
    for first in range(0, boxes.shape.conditions, MADE_AT_ONCE):
        part = slice(first, first + MADE_AT_ONCE)
        given = (each[part].tolist() for each in (boxes.slots, boxes.lows, boxes.highs))
        for slots, lows, highs in zip(*given, strict=True):
            tests = []
            for slot, low, high in zip(slots, lows, highs, strict=True):
                tests += [Constraint(names[slot], ">=", low), Constraint(names[slot], "<=", high)]
            yield (tuple(tests),)


def index_mb(columns: Columns) -> float:
    """What matching needs: the image, and the slots' constants with their guides."""
    edges = [each for slot in columns.slots for each in slot.edges.values()]
    constants = sum(each.values.nbytes + each.exact.nbytes + each.guide[0].nbytes for each in edges)
    return (sum(each.nbytes for each in columns.image) + constants) / 1e6


def measured(
    boxes: Boxes, events: int, rounds: int, objects: bool, alone_too: bool = False
) -> tuple[dict[str, Any], Columns]:
    """Holdfast on one shape; with `objects` it compiles filters as the parser leaves them, made as they are needed."""
    shape, table = boxes.shape, boxes.events(events)
    began = process_time()
    columns = Columns.of(filters_of(boxes)) if objects else columns_of(boxes)
    compile_s = process_time() - began
    gc.collect()
    columns.match(table.slice(0, 2))
    seconds, writing, pairs = np.inf, np.inf, 0
    for _ in range(rounds):
        began = process_time()
        found = columns.match(table)
        seconds = min(seconds, process_time() - began)
        pairs = sum(rows.size for rows, _ in found)
        writing = min(writing, written(found))
        del found
    single = alone_s(columns, table.slice(0, SINGLE).to_pylist(), rounds)
    return {
        "conditions": shape.conditions,
        "attributes": shape.attributes,
        "constraints": shape.constraints,
        "width": shape.width,
        "events": events,
        "from": "filters" if objects else "arrays",
        "pairs_per_event": pairs / events,
        "compile_s": compile_s,
        "batch_ms": 1e3 * seconds / events,
        "single_ms": 1e3 * single,
        "index_mb": index_mb(columns),
        **(memory_of(shape) if objects and alone_too else {}),
        "batch_ps_per_condition": 1e12 * seconds / events / shape.conditions,
        "writing_ms": 1e3 * writing / events,
    }, columns


def alone_s(columns: Columns, events: list[dict[str, Any]], rounds: int) -> float:
    few = Few(columns)
    few.match(events[:1])
    best = np.inf
    for _ in range(rounds):
        began = process_time()
        for event in events:
            few.match([event])
        best = min(best, process_time() - began)
    return best / len(events)


def written(found: list[Pairs]) -> float:
    """What it takes to write as many pairs down, whatever they are, in memory as new as that of an answer."""
    _fill(np.empty(1, np.int32))  # compiles it
    began = process_time()
    buffers = []
    for pair in found:
        for each in pair:
            buffers.append(np.frombuffer(pa.allocate_buffer(each.nbytes), np.int32))
            _fill(buffers[-1])
    return process_time() - began


@_compiled
def _fill(buffer: npt.NDArray[np.int32]) -> None:
    for i in range(buffer.size):
        buffer[i] = i


def memory_of(shape: Shape) -> dict[str, float]:
    """What a matcher of these conditions takes in a process of its own: resident, over what the packages take."""
    code = f"from bench.wide_ranges import grown; grown({shape.conditions})"
    command = [sys.executable, "-c", code]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


def grown(conditions: int) -> None:
    """Build a matcher from conditions that are made as they are needed, ask it, and print what it takes."""
    warm = Boxes(Shape(2_000))
    Matcher.build(enumerate(map(Subscription, filters_of(warm)))).match_batch(warm.events(64))
    boxes = Boxes(Shape(conditions))
    events = boxes.events(64)
    before = _resident_mb("VmRSS")
    matcher = Matcher.build(enumerate(map(Subscription, filters_of(boxes))))
    matcher.match_batch(events)
    matcher.match(events.slice(0, 1).to_pylist()[0])
    gc.collect()
    now, peak = _resident_mb("VmRSS"), _resident_mb("VmHWM")
    print(json.dumps({"matcher_mb": now - before, "building_mb": peak - before}))


def _resident_mb(what: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:")) * 1_024 / 1e6


def peer_row(peer: type[Timed], boxes: Boxes, columns: Columns) -> dict[str, Any]:
    conditions = min(boxes.shape.conditions, peer.conditions_max)
    count = int(np.clip(peer.tests_max // conditions, 3, 200))
    part, events = boxes.part(conditions), boxes.events(EVENTS).slice(0, count)
    contestant = peer(part, events)
    if peer.__name__ in ("Rein", "OpIndex"):
        contestant.run()  # compiles its kernel
    seconds, pairs = contestant.best(ROUNDS)
    expected = sum(int(np.count_nonzero(numbers < conditions)) for _, numbers in columns.match(events))
    if pairs != expected:
        raise Disagreement(f"{part.shape.title}, {count} events: {peer.name} {pairs:,} pairs, holdfast {expected:,}")
    scale = boxes.shape.conditions / conditions
    say(f"{peer.name} {1e3 * seconds / count * scale:.3f} ms")
    return {
        "conditions": boxes.shape.conditions,
        "contestant": peer.name,
        "measured_conditions": conditions,
        "measured_events": count,
        "ms": 1e3 * seconds / count * scale,
    }


def churn(boxes: Boxes, events: list[dict[str, Any]]) -> dict[str, Any]:
    """Add and remove conditions while matching: CPU time of the adds and removes alone, and of the matches between."""
    kept = boxes.shape.conditions - CHANGES
    conditions = map(Subscription, filters_of(boxes))
    matcher = Matcher.build(enumerate(islice(conditions, kept)))
    new = list(conditions)
    matcher.match(events[0])
    changing = matching = 0.0
    for number, condition in enumerate(new):
        began = process_time()
        matcher.add(kept + number, condition)
        if number >= 100:
            matcher.remove(kept + number - 100)
        middle = process_time()
        matcher.match(events[number % len(events)])
        matching += process_time() - middle
        changing += middle - began
    return {
        "conditions": kept,
        "changes": CHANGES,
        "pairs_per_second": CHANGES / changing,
        "match_ms": 1e3 * matching / CHANGES,
    }


def shapes(conditions: int) -> list[Shape]:
    """One thing varied at a time, and the corners."""
    found = [Shape(conditions, width=width) for width in (0.1, 0.2, 0.6, 0.8)]
    found += [Shape(conditions, constraints=constraints) for constraints in (2, 5, 20)]
    found += [Shape(conditions, attributes=attributes) for attributes in (10, 50, 100)]
    corners = ((10, 2, 0.1), (10, 2, 0.8), (100, 2, 0.1), (100, 20, 0.1), (100, 20, 0.8))
    return found + [Shape(conditions, *each) for each in corners]


def run(sizes: list[int], parts: list[str], shaped: int, events: int, rounds: int) -> Iterator[dict[str, Any]]:
    """What each part found, as it is done."""
    for size in sizes:
        boxes = Boxes(Shape(size))
        say(boxes.shape.title)
        if "rows" in parts:
            row, columns = measured(boxes, events, rounds, size <= OBJECTS_MAX, alone_too=True)
            say(f"batch {row['batch_ms']:.4f} ms, single {row['single_ms']:.3f} ms, compile {row['compile_s']:.1f} s")
            yield {"rows": [row]}
        if "peers" in parts:
            columns = columns if "rows" in parts else columns_of(boxes)
            yield {"peers": [peer_row(peer, boxes, columns) for peer in PEERS]}
        columns = None
        gc.collect()
        if "churn" in parts and size <= OBJECTS_MAX:
            yield {"churn": [churn(boxes, boxes.events(64).to_pylist())]}
    if "shapes" in parts:
        others = []
        for shape in [Shape(shaped), *shapes(shaped)]:
            others.append(measured(Boxes(shape), events // 2, rounds, objects=False)[0])
            say(f"{shape.title}: {others[-1]['batch_ms']:.4f} ms, {others[-1]['pairs_per_event']:,.0f} pairs")
        yield {"shapes": others}


def together(parts: Iterable[dict[str, Any]], before: dict[str, Any] | None = None) -> dict[str, Any]:
    """Parts as one result; of two with the same conditions the later one counts, and shapes come all at once."""
    found: dict[str, list[dict[str, Any]]] = {name: list((before or {}).get(name, [])) for name in PARTS}
    for part in parts:
        for name, rows in part.items():
            new = {row["conditions"] for row in rows}
            kept = [row for row in found[name] if row["conditions"] not in new and name != "shapes"]
            found[name] = sorted(kept + rows, key=lambda row: int(row["conditions"]))
    return {
        "benchmark": "wide_ranges",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(("numpy", "numba", "pyarrow", "duckdb", "polars")),
        **found,
        "checks": checks(found["rows"], found["churn"], found["shapes"]),
    }


def checks(
    rows: list[dict[str, Any]], changes: list[dict[str, Any]], others: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    found = []
    for row in rows:
        wanted = TARGETS.get(row["conditions"], {})
        for name, target in [(name, target) for name, target in wanted.items() if name in row]:
            title = f"{row['conditions']:,} conditions: {name}"
            found.append({"name": title, "target": target, "measured": row[name], "holds": row[name] <= target})
    for changed in changes[-1:]:
        rate = changed["pairs_per_second"]
        title = f"{changed['conditions']:,} conditions: adds and removes a second"
        found.append({"name": title, "target": CHANGES_PER_S, "measured": rate, "holds": rate >= CHANGES_PER_S})
    if others:
        timed = others if all("writing_ms" in row for row in others) else []  # earlier results do not have it
        for title, few, without in (
            ("all shapes", others, 0),
            ("all shapes, without what writing their pairs takes", timed, 1),
            ("shapes that match less than 1 %", [*filter(_matches_little, others)], 0),
        ):
            costs = [(row["batch_ms"] - without * row.get("writing_ms", 0)) / row["conditions"] for row in few]
            if not costs:
                continue
            spread = max(costs) / min(costs)
            name = f"{title}: slowest per condition over fastest"
            found.append({"name": name, "target": SPREAD_MAX, "measured": spread, "holds": spread <= SPREAD_MAX})
    return found


def _megabytes(found: float | None) -> str:
    return "" if found is None else f"{found:,.0f}"


def _milliseconds(found: float | None, places: int = 2) -> str:
    return "" if found is None else f"{found:,.{places}f}"


def _matches_little(row: dict[str, Any]) -> bool:
    return bool(row["pairs_per_event"] < row["conditions"] / 100)


def _floor(others: list[dict[str, Any]]) -> str:
    """How near to each other the slowest and the fastest shape can be."""
    if not all("writing_ms" in row for row in others):
        return ""
    least = max((row["writing_ms"] / row["conditions"] for row in others), default=0.0)
    fastest = min((row["batch_ms"] / row["conditions"] for row in others), default=np.inf)
    return f"""Writing the pairs of the shape with the most of them, without finding any, takes {least / fastest:.1f}
times as long as the fastest shape takes in all.

"""


def section(found: dict[str, Any]) -> str:
    where = found["machine"]
    times: dict[int, dict[str, float]] = {}
    for peer in found["peers"]:
        times.setdefault(peer["conditions"], {})[peer["contestant"]] = peer["ms"]
    names = [peer.name for peer in PEERS]
    rows = "\n".join(
        f"| {row['conditions']:,} | {row['pairs_per_event']:,.1f} | {row['batch_ms']:.4f} | {row['single_ms']:.3f} | "
        f"{row['compile_s']:.1f} | {row['index_mb']:,.0f} | {_megabytes(row.get('matcher_mb'))} | "
        + " | ".join(_milliseconds(times.get(row["conditions"], {}).get(name)) for name in names)
        + " |"
        for row in found["rows"]
    )
    others = "\n".join(
        f"| {row['attributes']} | {row['constraints']} | {row['width']} | {row['pairs_per_event']:,.1f} | "
        f"{row['batch_ms']:.4f} | {_milliseconds(row.get('writing_ms'), 4)} | {row['single_ms']:.3f} | "
        f"{row['index_mb']:,.0f} |"
        for row in found["shapes"]
    )
    targets = "\n".join(
        f"| {each['name']} | {each['target']:,g} | {each['measured']:,.3g} | {'yes' if each['holds'] else 'NO'} |"
        for each in found["checks"]
    )
    changes = "".join(
        f"With {each['conditions']:,} conditions, {each['changes']:,} more were added and removed while matching:\n"
        f"{each['pairs_per_second']:,.0f} such pairs a second, and {each['match_ms']:.2f} ms for a match in between.\n"
        for each in found["churn"][-1:]
    )
    shaped = f"""Other shapes, {SHAPED:,} conditions. "Writing" is what it takes to fill as much new memory as an answer
has, eight bytes a pair, with anything at all: no matcher that lists pairs takes less. It is part of "batch".

| attributes | constraints | width | pairs an event | batch | writing | single event | index (MB) |
|--:|--:|--:|--:|--:|--:|--:|--:|
{others}

{_floor(found["shapes"])}"""
    return f"""## Wide ranges

Measured on {found["date"]} with `./run bench wide_ranges --save`: {where["processor"]}, {where["cores"]} cores,
{where["memory_gib"]} GiB, Python {where["python"]}.

Twenty integer attributes from 1 to 1,000,000; each condition has `low <= a <= low + 400,000` on ten of them. CPU time
in milliseconds an event, of all threads; peers use one, except Polars. DuckDB and Polars get at most 10,000 conditions
and the others a million, and their times are scaled. The index is the image and the constants. The matcher is all that
`Matcher.build` leaves resident in a process of its own, with ids and the texts of conditions. More than
{OBJECTS_MAX:,} conditions go to the compiler as arrays. REIN and OpIndex are written from their papers.

| conditions | pairs an event | batch | single event | compile (s) | index (MB) | matcher (MB) | {" | ".join(names)} |
|--:|--:|--:|--:|--:|--:|--:|{"--:|" * len(names)}
{rows}

{shaped if others else ""}{changes}
| target | at most, or at least | measured | holds |
|---|--:|--:|---|
{targets}
"""


def main() -> int:
    words = options("wide_ranges", __doc__)
    words.add_argument("--quick", action="store_true", help="small sizes, under a minute; never saved")
    words.add_argument("--redraw", action="store_true", help="only write the page anew from the saved result")
    words.add_argument("--sizes", type=int, nargs="*", default=list(SIZES), metavar="N", help="numbers of conditions")
    words.add_argument("--parts", nargs="*", default=list(PARTS), choices=PARTS, help="what to measure (all)")
    given = words.parse_args()
    if given.redraw:
        redraw("wide_ranges", section)
        return 0
    if given.save and given.quick:
        words.error("--save needs the whole run: leave out --quick")
    if given.quick:
        found = together(run([10_000], list(PARTS), 5_000, 1_000, 1))
    else:
        found = together([])
        for part in run(given.sizes, given.parts, SHAPED, EVENTS, ROUNDS):
            if given.save:
                found = together([part], load(saved_at("wide_ranges")))
                keep(found, section)
            else:
                found = together([part], found)
    show(given, found, section)
    return 0 if all(check["holds"] for check in found["checks"]) else 1


if __name__ == "__main__":
    sys.exit(main())
