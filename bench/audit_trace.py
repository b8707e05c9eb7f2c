"""Traces of any size for the bench of the audit, written column by column: nobody could simulate a hundred million."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.books.trace import PUBLICATION, ROWS_MAX, SCHEMAS, TraceWriter

Numbers = npt.NDArray[np.int64]

PART_OWED = 2_000_000  # deliveries that one file's publications owe
SUBSCRIBERS = 20  # each wants half of the events of all sources but the hot one
SOURCES = 20
EVERY_US = 500  # between two events of one source
LOST = 0.005  # of the deliveries: neither came nor has a cause, so that P4 is broken
REPAIRED = 0.02  # came LATER_US later, behind others of their source
LATER_US = 400_000
HOT = 0.9  # of what is owed, where one pair is hot


@dataclass(frozen=True)
class Part:
    """Publications that follow each other: of all sources in turn, or of the hot one."""

    source: npt.NDArray[np.str_]
    seq: Numbers
    wanted: Numbers  # the attribute n; below 50 it is wanted by all subscribers, -1 by the hot one alone

    @property
    def time_us(self) -> Numbers:
        return self.seq * EVERY_US


def write_trace(folder: Path, owed: int, hot: bool = False, seed: int = 7) -> Path:
    writer = TraceWriter(folder, {"name": folder.name, "driver": "sim", "seed": seed})
    writer.add("messages", "b1", "Publish", 0, 1_000_000, 10, 1_000, 0, 10)
    for number in range(SUBSCRIBERS):
        writer.add("subscriptions", f"s{number}", "0", "n BETWEEN 0 AND 49", 0, None)
    writer.add("subscriptions", "hot", "0", "n = -1", 0, None)
    writer.close()
    for name in ("publications", "deliveries"):  # without any rows; ours take their place
        for path in (folder / name).iterdir():
            path.unlink()
    dice = np.random.default_rng(seed)
    for number, part in enumerate(_parts(owed, hot, dice)):
        about = {"source": part.source, "seq": part.seq, "time_us": part.time_us, "attr:n": part.wanted}
        _write(folder, "publications", number, pa.schema([*PUBLICATION, ("attr:n", pa.int64())]), about)
        _write(folder, "deliveries", number, SCHEMAS["deliveries"], _delivered(part, dice))
    return folder


def _parts(owed: int, hot: bool, dice: np.random.Generator) -> Iterator[Part]:
    hot_owed = int(owed * HOT) if hot else 0
    for first, count in _portions(hot_owed, PART_OWED):
        yield Part(np.full(count, "hot"), np.arange(first, first + count) + 1, np.full(count, -1))
    each = SUBSCRIBERS // 2  # deliveries that an event owes on average
    for first, count in _portions((owed - hot_owed) // each, PART_OWED // each):
        number = np.arange(first, first + count)
        names = np.array([f"p{at}" for at in range(SOURCES)])
        yield Part(names[number % SOURCES], number // SOURCES + 1, dice.integers(0, 100, count))


def _portions(whole: int, size: int) -> Iterator[tuple[int, int]]:
    return ((first, min(size, whole - first)) for first in range(0, whole, size))


def _delivered(part: Part, dice: np.random.Generator) -> dict[str, object]:
    """In the order of time, as a run writes them; what was repaired comes behind later events."""
    rows = [np.flatnonzero((part.wanted >= 0) & (part.wanted < 50))] * SUBSCRIBERS
    rows.append(np.flatnonzero(part.wanted == -1))
    names = [*(f"s{number}" for number in range(SUBSCRIBERS)), "hot"]
    row = np.concatenate(rows)
    subscriber = np.repeat(names, [len(each) for each in rows])
    fate = dice.random(len(row))
    repaired = fate < REPAIRED
    delay = np.exp(dice.normal(9.5, 0.5, len(row))).astype(np.int64) + repaired * LATER_US  # some 13 ms
    time_us = part.time_us[row] + delay
    order = np.argsort(time_us)
    order = order[fate[order] < 1 - LOST]
    row = row[order]
    return {
        "subscriber": subscriber[order],
        "source": part.source[row],
        "seq": part.seq[row],
        "time_us": time_us[order],
        "via": np.where(repaired[order], "repair", "original"),
        "held_us": np.zeros(len(row), np.int64),
    }


def _write(folder: Path, table: str, number: int, schema: pa.Schema, columns: dict[str, object]) -> None:
    count = len(next(iter(columns.values())))  # type: ignore[arg-type]
    missing = {name: pa.nulls(count, kind) for name, kind in ((f.name, f.type) for f in schema) if name not in columns}
    found = pa.table({name: pa.array((columns | missing)[name]) for name in schema.names}).cast(schema)
    pq.write_table(found, folder / table / f"part-{number:05}.parquet", compression="zstd", row_group_size=ROWS_MAX)
