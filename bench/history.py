"""A broker's history: how fast ten million events are searched for few of them, judged by DuckDB.

Events are those of a fleet: vehicle, region, speed, fuel, a code. They are appended as a broker does, in batches. Each
search reads the whole history. DuckDB answers the same condition from a table of the same events, and the two must name
the same events. Times are processor seconds of this process.
"""

import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import duckdb
import pyarrow as pa

from bench.command import options, told
from bench.results import machine
from holdfast import parse
from holdfast.store.history import History
from holdfast.store.log import Retention
from holdfast.store.logged import Logged

ID = "0" * 32
BATCH = 1_000
VEHICLES = 10_000
REGIONS = ("north", "south", "east", "west", "centre")
TARGET = 5_000_000  # events skipped in a second

SEARCHES = {
    "one vehicle in ten thousand": "vehicle = 'v4711'",
    "three vehicles": "vehicle IN ('v1', 'v77', 'v9000')",
    "a vehicle, and a range": "vehicle = 'v4711' AND speed > 100",
    "the last ten thousandth": None,  # by number, which grows
    "a rare code": "code = 7 AND region = 'north'",
    "nothing": "vehicle = 'w1'",
    "a common region, and a rare speed": "region = 'north' AND speed > 129.9",
}


def events(count: int) -> Iterator[list[dict[str, Any]]]:
    dice = Random(1)
    for start in range(0, count, BATCH):
        yield [
            {
                "n": number,
                "vehicle": f"v{dice.randrange(VEHICLES)}",
                "region": dice.choice(REGIONS),
                "speed": round(dice.random() * 130, 1),
                "fuel": dice.randrange(100),
                "code": min(dice.randrange(10_000), 999) if number % 10 == 0 else 0,
            }
            for number in range(start, min(start + BATCH, count))
        ]


def fill(history: History, judge: duckdb.DuckDBPyConnection, count: int) -> float:
    """The processor seconds that appending took."""
    judge.execute("CREATE TABLE events (n BIGINT, vehicle TEXT, region TEXT, speed DOUBLE, fuel BIGINT, code BIGINT)")
    took, waiting = 0.0, []
    for batch in events(count):
        rows = [Logged("fleet", each["n"] + 1, each["n"], 0, "original", each) for each in batch]
        before = process_time()
        history.append(rows, 1)
        took += process_time() - before
        waiting += batch
        if len(waiting) >= 100 * BATCH:
            insert(judge, waiting)
            waiting = []
    if waiting:
        insert(judge, waiting)
    return took


def insert(judge: duckdb.DuckDBPyConnection, rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows)
    judge.register("rows", table)
    judge.execute("INSERT INTO events SELECT n, vehicle, region, speed, fuel, code FROM rows")
    judge.unregister("rows")


def search(history: History, condition: str) -> tuple[list[int], int, float]:
    """The numbers found, how many events were read, and the processor seconds."""
    found: list[int] = []
    wanted, lo, end, read, before = parse(condition), 0, history.log.end, 0, process_time()
    while lo < end:
        part = history.search(wanted, lo, end, 0, 1_000, 2**18)
        found += [each.attributes["n"] for each in part.events]
        read += part.read
        lo = part.next
    return found, read, process_time() - before


def measure(count: int, folder: Path) -> list[dict[str, Any]]:
    history = History(folder, ID, Retention(keep_bytes=2**40), 0)
    judge = duckdb.connect()
    appended_s = fill(history, judge, count)
    zones = sum(path.stat().st_size for path in folder.glob("*.zones"))
    rows: list[dict[str, Any]] = [
        {"what": "append", "events": count, "events_per_cpu_second": count / appended_s},
        {"what": "size", "events": count, "log_bytes": history.log.size, "zone_bytes": zones},
    ]
    for name, condition in SEARCHES.items():
        text = condition or f"n >= {count - count // 10_000}"
        numbers, read, took_s = search(history, text)
        expected = [each for (each,) in judge.execute(f"SELECT n FROM events WHERE {text} ORDER BY n").fetchall()]
        if numbers != expected:
            raise SystemExit(f"{text}: found {len(numbers)} events, DuckDB finds {len(expected)}")
        skipped = (count - read) / took_s
        row = {"what": name, "condition": text, "events": count, "found": len(numbers), "read": read}
        rows.append(row | {"cpu_s": took_s, "skipped_per_cpu_second": skipped})
    return rows


def section(data: Mapping[str, Any]) -> str:
    append, size, *searches = data["rows"]
    return "\n".join(
        [
            "## History",
            "",
            f"`./run bench history --save`, {data['date']}, {data['machine']['processor']}, Python "
            f"{data['machine']['python']}. {append['events']:,} events of a fleet of ten thousand, in random order. "
            "DuckDB finds the same events for every condition. Appending takes a processor second for "
            f"{append['events_per_cpu_second']:,.0f} events; the log has {size['log_bytes'] / 2**20:,.0f} MiB, its "
            f"zone maps {size['zone_bytes'] / 2**20:,.0f} MiB. Target: {TARGET:,} events skipped in a second, where "
            "one in a thousand or fewer match.",
            "",
            "| searched for | condition | found | read | CPU s | skipped/s | target |",
            "|---|---|--:|--:|--:|--:|---|",
            *[
                f"| {row['what']} | `{row['condition']}` | {row['found']:,} | {row['read']:,} | {row['cpu_s']:.2f} "
                f"| {row['skipped_per_cpu_second']:,.0f} | {_holds(row)} |"
                for row in searches
            ],
        ]
    )


def _holds(row: Mapping[str, Any]) -> str:
    if row["found"] > row["events"] / 1_000:
        return "does not apply"
    return "holds" if row["skipped_per_cpu_second"] >= TARGET else "does not hold"


def main() -> int:
    words = options("history", __doc__)
    words.add_argument("--events", type=int, default=10_000_000, help="how many are searched")
    given = words.parse_args()
    with TemporaryDirectory() as folder:
        rows = measure(given.events, Path(folder))
    about = {"benchmark": "history", "date": datetime.now(UTC).date().isoformat(), "machine": machine()}
    data = about | {"target": TARGET, "rows": rows}
    told(given, data, section)
    return 0


if __name__ == "__main__":
    sys.exit(main())
