"""Exactly once into Delta Lake: a streaming match whose driver is killed again and again, judged by the table alone.

`holdfast match --stream --to delta:...` runs as people run it, and SIGKILL ends the driver, its JVM and its workers
together: at any moment, right when a batch's files lie in the table's folder and no commit names them, or right after
a commit that Spark's checkpoint does not know yet. Then the same command goes on. In the end the table must hold the
pairs that DuckDB finds in the events, each once. Between the kills the table is read as well: it may lack what is to
come, and must never hold a pair twice or one that is not owed.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from bench.command import options, told
from bench.delta_judge import replayed, rows, strays
from bench.results import machine
from holdfast.pipeline.session import SHORT_JVM

ROWS = 500  # events of a file, and of a batch
REST = 50  # files of a batch in the last run, which nobody kills
CONDITIONS = {"low": "price < 10", "ibm": "symbol = 'IBM'", "both": "symbol = 'IBM' AND price < 30 OR price = 7"}
WORDS = {
    "any": "at any moment",
    "files there": "with a batch's files in the folder and no commit",
    "committed": "right after a commit",
}
MOMENTS = tuple(WORDS)
START_S = 400  # for a driver to commit its first batch on a busy machine
SEED = 7


def events(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    symbols = [("IBM", "MSFT", "ORCL")[number % 3] for number in ids]
    prices = pa.array([float(number * 7 % 100) for number in ids])
    return pa.table({"id": pa.array(ids, pa.int64()), "symbol": symbols, "price": prices})


def prepare(place: Path, files: int) -> None:
    (place / "in").mkdir()
    for number in range(files):
        path = place / "in" / f"{number:05}.parquet"
        pq.write_table(events(number * ROWS, ROWS), path)
        os.utime(path, (1_700_000_000 + number,) * 2)
    wishes = [json.dumps({"id": id_, "condition": text}) for id_, text in CONDITIONS.items()]
    (place / "wishes.jsonl").write_text("\n".join(wishes))


def command(*more: str, files: int = 1) -> list[str]:
    words = ["match", "in", "wishes.jsonl", "--key", "id", "--stream", "--to", "delta:lake", "--checkpoint", "progress"]
    python = [sys.executable, "-c", "from holdfast.cli import main; main()"]
    # A driver lives for seconds: the JVM's optimising compiler would only slow its start.
    short = ["--conf", f"spark.driver.extraJavaOptions={SHORT_JVM}"]
    return [*python, *words, *short, "--option", f"maxFilesPerTrigger={files}", *more]


class Watched:
    """The table's folder as somebody sees it who lists it again and again."""

    def __init__(self, table: Path) -> None:
        self._table = table

    def commits(self) -> int:
        log = self._table / "_delta_log"
        return sum(name.endswith(".json") for name in os.listdir(log)) if log.exists() else 0

    def files(self) -> int:
        return sum(name.endswith(".parquet") for name in os.listdir(self._table)) if self._table.exists() else 0


def run_and_kill(place: Path, moment: str, dice: random.Random) -> None:
    """One driver from start to SIGKILL."""
    table = Watched(place / "lake" / "matches")
    commits = table.commits()
    running = subprocess.Popen(
        command("--every", "0"), cwd=place, process_group=0, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        if moment == "any":
            time.sleep(dice.uniform(0, 20))
        else:
            wanted = commits + dice.randint(1, 6)
            _until(lambda: table.commits() >= wanted or running.poll() is not None)
            if moment == "files there":
                before = table.files()
                _until(lambda: table.files() > before or running.poll() is not None)
        if running.poll() is not None and running.stderr is not None:
            raise AssertionError(f"the driver ended by itself: {running.stderr.read().decode()[-2000:]}")
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()


def _until(condition: Any) -> None:
    end = time.monotonic() + START_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("the driver does not get on")
        time.sleep(0.0005)


def expected(files: int) -> Counter[tuple[int, str]]:
    """What is owed, by DuckDB: each condition on every event."""
    connection = duckdb.connect()
    connection.register("events", events(0, files * ROWS))
    owed: Counter[tuple[int, str]] = Counter()
    for id_, condition in CONDITIONS.items():
        owed.update((row[0], id_) for row in connection.execute(f"SELECT id FROM events WHERE {condition}").fetchall())
    return owed


def found(table: Path) -> Counter[tuple[int, str]]:
    read = rows(table)
    return Counter(zip(read["id"].to_pylist(), read["subscription"].to_pylist(), strict=True))


def judge(table: Path, owed: Counter[tuple[int, str]]) -> dict[str, int]:
    here = found(table)
    return {
        "pairs": sum(here.values()),
        "twice": sum(count - 1 for count in here.values()),
        "not owed": len(here.keys() - owed.keys()),
        "missing": len(owed.keys() - here.keys()),
    }


def kill_on(place: Path, kills: int, owed: Counter[tuple[int, str]], minutes: float) -> list[dict[str, Any]]:
    """As many kills as are still to come, or as the time allows; what was seen is kept beside the stream."""
    notes, table = place / "kills.json", place / "lake" / "matches"
    seen: list[dict[str, Any]] = json.loads(notes.read_text()) if notes.exists() else []
    until = time.monotonic() + 60 * minutes
    while len(seen) < kills and time.monotonic() < until:
        moment = MOMENTS[len(seen) % len(MOMENTS)]
        run_and_kill(place, moment, random.Random(f"{SEED}/{len(seen)}"))
        commits = replayed(table).commits if (table / "_delta_log").exists() else 0
        now = judge(table, owed) if commits else {}
        seen.append({"moment": moment, "commits": commits, "strays": len(strays(table)) if commits else 0, **now})
        notes.write_text(json.dumps(seen))
        print(f"kill {len(seen)} of {kills}: {seen[-1]}", file=sys.stderr, flush=True)
        if any(now.get(wrong) for wrong in ("twice", "not owed")):
            raise AssertionError(f"the table is wrong after kill {len(seen)}: {now}")
    return seen


def measure(place: Path, kills: int, files: int, minutes: float) -> dict[str, Any] | None:
    """None when the time was over before the kills were."""
    if not (place / "in").exists():
        prepare(place, files)
    table, owed = place / "lake" / "matches", expected(files)
    seen = kill_on(place, kills, owed, minutes)
    if len(seen) < kills:
        return None
    subprocess.run(command("--once", files=REST), cwd=place, check=True, stdout=subprocess.DEVNULL)
    log = replayed(table)
    versions = next(iter(log.writers.values()))
    if versions != sorted(set(versions)):
        raise AssertionError(f"batches were committed twice or out of order: {versions}")
    return {
        "kills": seen,
        "end": judge(table, owed),
        "owed": sum(owed.values()),
        "batches": len(versions),
        "strays": len(strays(table)),
        "folder_rows": sum(pq.read_metadata(each).num_rows for each in table.glob("*.parquet")),
    }


def section(data: dict[str, Any]) -> str:
    made, end = data["machine"], data["end"]
    at = Counter(each["moment"] for each in data["kills"])
    left = sum(1 for one, other in pairwise([{"strays": 0}, *data["kills"]]) if other["strays"] > one["strays"])
    moments = ", ".join(f"{at[moment]} {WORDS[moment]}" for moment in MOMENTS)
    return f"""## A stream into Delta Lake, its driver killed

`./run bench delta_kills --save`, {data["date"]}, {made["processor"]}, Python {made["python"]}, deltalake
{made["libraries"]["deltalake"]}. `holdfast match --stream --to delta:lake` is ended by SIGKILL {len(data["kills"])}
times ({moments}), JVM and workers with it, and goes on by the same command. A judge without code of ours or of delta-rs
replays the table's log, reads the files that it names with DuckDB, and compares the pairs with DuckDB's own.

| | |
|---|--:|
| pairs owed | {data["owed"]:,} |
| pairs in the table | {end["pairs"]:,} |
| twice | {end["twice"]:,} |
| not owed | {end["not owed"]:,} |
| missing | {end["missing"]:,} |
| wrong when read after a kill | {sum(each.get("twice", 0) + each.get("not owed", 0) for each in data["kills"]):,} |
| batches, each committed once | {data["batches"]:,} |
| kills that left files which no commit names | {left:,} |
| rows in all files of the folder, what a reader without the log would count | {data["folder_rows"]:,} |
"""


def main() -> int:
    words = options("delta_kills", __doc__)
    words.add_argument("--kills", type=int, default=50)
    words.add_argument("--files", type=int, default=400, help="of events: more than the killed drivers get through")
    words.add_argument("--place", type=Path, help="where the stream is kept, to go on in another run")
    words.add_argument("--minutes", type=float, default=1e9, help="with --place: stop after these, and go on later")
    given = words.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-kills-") as folder:
        place = given.place or Path(folder)
        place.mkdir(exist_ok=True)
        measured = measure(place, given.kills, given.files, given.minutes)
    if measured is None:
        print(f"not done yet; the same command goes on in {given.place}")
        return 0
    about = {"benchmark": "delta_kills", "date": datetime.now(UTC).date().isoformat()}
    libraries = machine(("deltalake", "duckdb", "pyarrow", "pyspark"))
    told(given, {**about, "machine": libraries, **measured}, section)
    return 0


if __name__ == "__main__":
    sys.exit(main())
