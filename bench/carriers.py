"""A burst over somebody else's bus while its server is killed and a connection cut: a bare client, and Holdfast's.

One publisher, one subscriber that takes everything at once and one that takes 20,000 events a second. After a third the
server is killed with SIGKILL and started again after a second; after two thirds both subscribers are cut off for ten
seconds, by a proxy. The bare client is the carrier alone: one event a message as JSON, and a loop that connects again.
Every event has a number, and what came of it is counted by no code of the clients. A second burst, without trouble,
measures rates; a bus in this process that loses 1 % of its messages, what recovery costs in bytes.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench.carrier_bare import bare_burst, event
from bench.carrier_judge import judged
from bench.carrier_riders import holdfast_burst, overhead
from bench.carrier_trouble import Burst, Scene
from bench.command import keep, options, show
from bench.results import Check, load, machine, saved_at
from bench.rounds import say
from holdfast.carriers.servers import SERVERS

LIBRARIES = ("nats-py", "aiomqtt", "redis", "aio-pika", "eclipse-zenoh", "stomp.py", "msgspec")
EVENTS = 200_000  # of the burst in trouble
RATE_EVENTS = 50_000  # and of each without, if the bare client carries them in
RATE_S = 5.0  # otherwise as many as it carries in that time
SLOW_PER_S = 20_000
ROUNDS = 3
LOSS_RATIO, LOSSY_EVENTS = 0.01, 50_000
_ADDED_RATIO = 0.15
_BURSTS = {"bare": bare_burst, "holdfast": holdfast_burst}


def measure(bus: str, folder: Path) -> dict[str, Any]:
    """One row of the table."""
    say(f"{bus}: rates")
    rates: dict[str, list[float]] = {name: [] for name in _BURSTS}
    server = SERVERS[bus](folder / "rates")
    server.start()
    try:
        first = asyncio.run(_rate("bare", server, Burst(RATE_EVENTS // 10)))
        burst = Burst(min(RATE_EVENTS, int(first * RATE_S)))
        for _ in range(ROUNDS):
            for name in _BURSTS:
                rates[name].append(asyncio.run(_rate(name, server, burst)))
    finally:
        server.kill()
    row: dict[str, Any] = {"bus": bus, "events": EVENTS}
    row |= {f"{name}_per_s": median(found) for name, found in rates.items()}
    row["ratio"] = median(ours / bare for ours, bare in zip(rates["holdfast"], rates["bare"], strict=True))
    for name in _BURSTS:
        say(f"{bus}: {name} in trouble")
        server = SERVERS[bus](folder / name)
        server.start()
        try:
            row[name] = asyncio.run(_troubled(name, server))
        finally:
            server.kill()
    return row


async def _rate(name: str, server: Any, burst: Burst) -> float:
    """Deliveries a second, from the first event that leaves to the last that comes: a bare client may lose some."""
    async with Scene(server, burst) as scene:
        began_s = time.perf_counter()
        _, (came,) = await _BURSTS[name](scene, burst)
        return len(came.numbers) / (came.last_s - began_s)


async def _troubled(name: str, server: Any) -> dict[str, Any]:
    burst = Burst(EVENTS, SLOW_PER_S, troubled=True)
    async with Scene(server, burst) as scene:
        return judged(EVENTS, *await _BURSTS[name](scene, burst))


def checks(rows: list[Mapping[str, Any]], added_ratio: float) -> Iterator[Check]:
    for row in rows:
        ours, bus = row["holdfast"], row["bus"]
        yield Check(f"{bus}: delivered of what is owed", "at least", 1.0, "", ours["delivered"] / ours["owed"])
        for what in ("unnamed", "twice", "out_of_order"):
            yield Check(f"{bus}: {what.replace('_', ' ')}", "less than", 1, "events", ours[what])
        yield Check(f"{bus}: rate beside the bare client", "at least", 0.5, "x", row["ratio"])
    yield Check("bytes that recovery adds at 1 % loss", "less than", _ADDED_RATIO, "", added_ratio)


def section(data: Mapping[str, Any]) -> str:
    lines = [
        "## Over other buses",
        "",
        "`./run bench carriers --save`: a burst of 200,000 events over somebody else's bus to a fast and a slow "
        "subscriber, while its server is killed with SIGKILL and restarted, and both subscribers are cut off for ten "
        "seconds. `bare` is the same client library without Holdfast, one event a message; `holdfast` has end-to-end "
        "recovery and strict order. A repair's time is from publishing to delivery, so it contains the ten seconds; "
        "behind it stands the same from when the subscriber could ask again, of the fast and of the slow one. The slow "
        "subscriber takes 20,000 events a second, repaired or not, and publisher and subscribers share one process. "
        "[docs/carriers.md](carriers.md) explains the carriers.",
        "",
        "| bus | | owed | delivered | named | unnamed | twice | out of order | events/s, no trouble | bytes/event | "
        "messages/event | repair p50 | p99 | fast, once reachable p50 | p99 | slow p50 | p99 |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in data["rows"]:
        for name in _BURSTS:
            each = row[name]
            later = [one[key] for one in each.get("subscribers", ()) for key in ("reachable_p50_s", "reachable_p99_s")]
            times = (each["repair_p50_s"], each["repair_p99_s"], *later)
            repairs = [f"{took:.2f} s" if each["repaired"] else "" for took in times] + [""] * (6 - len(times))
            counts = [f"{each[key]:,}" for key in "owed delivered named unnamed twice out_of_order".split()]
            costs = [f"{each['bytes'] / row['events']:.0f}", f"{each['messages'] / row['events']:.3f}"]
            cells = [row["bus"], name, *counts, f"{row[f'{name}_per_s']:,.0f}", *costs, *repairs]
            lines.append(f"| {' | '.join(cells)} |")
    lossy = data["lossy"]
    recovered, without, bare = (lossy[key] / lossy["events"] for key in ("recovered", "without", "bare"))
    lines += [
        "",
        f"At 1 % loss recovery adds {data['added_ratio']:.1%} to the bytes of the same events (target: less than "
        f"15 %{'' if data['added_ratio'] < _ADDED_RATIO else '; missed'}): {recovered:.1f} bytes an event instead of "
        f"{without:.1f}. A bare client's JSON has {bare:.1f}.",
        "",
        "The other targets:",
        "",
        *_targets(data["checks"]),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _targets(found: list[Mapping[str, Any]]) -> Iterator[str]:
    """A row for each target, a column for each bus; what was missed is marked."""
    by_target: dict[str, dict[str, Mapping[str, Any]]] = {}
    for each in found:
        bus, _, what = each["name"].rpartition(": ")
        if not bus:
            continue  # of no bus in particular
        by_target.setdefault(what, {})[bus] = each
    buses = list(by_target["twice"])
    yield f"| | target | {' | '.join(buses)} |"
    yield f"|---|---|{'--:|' * len(buses)}"
    for what, measured in by_target.items():
        one = next(iter(measured.values()))
        cells = [_cell(measured.get(bus)) for bus in buses]
        yield f"| {what} | {one['sense']} {one['target']:g}{one['unit'] and ' ' + one['unit']} | {' | '.join(cells)} |"


def _cell(check: Mapping[str, Any] | None) -> str:
    if check is None:
        return ""
    return f"{check['measured']:.3g}{'' if check['holds'] else ' (missed)'}"


def main() -> int:
    words = options("carriers", __doc__)
    words.add_argument("--only", action="append", choices=sorted(SERVERS), help="these alone; the saved others stay")
    given = words.parse_args()
    left_out = [f"{name}: {why}" for name, kind in SERVERS.items() if (why := kind.missing())]
    names = [name for name, kind in SERVERS.items() if name in (given.only or SERVERS) and not kind.missing()]
    saved = (load(saved_at("carriers")) or {}) if given.only else {}
    rows = {row["bus"]: row for row in saved.get("rows", ())}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            rows[name] = measure(name, Path(folder) / name)
    with_recovery, without = asyncio.run(overhead(LOSSY_EVENTS, LOSS_RATIO))
    bare = sum(len(json.dumps(event(number))) for number in range(LOSSY_EVENTS))
    ordered = [rows[name] for name in SERVERS if name in rows]
    added = with_recovery / without - 1
    data = {
        "benchmark": "carriers",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(LIBRARIES),
        "rows": ordered,
        "added_ratio": added,
        "lossy": {"events": LOSSY_EVENTS, "recovered": with_recovery, "without": without, "bare": bare},
        "left_out": left_out,
        "checks": [each.as_dict() for each in checks(ordered, added)],
    }
    if given.save:
        keep(data, section)
    show(given, data, section)
    return 0 if all(each["holds"] for each in data["checks"]) else 1


if __name__ == "__main__":
    sys.exit(main())
