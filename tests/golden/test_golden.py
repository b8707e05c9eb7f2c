"""What earlier versions wrote, frames and traces, is read today."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.books import format2
from holdfast.books.failovers import MOMENTS, Moment, failovers
from holdfast.books.promises import check
from holdfast.books.runs import Run
from holdfast.books.trace import ADDED, FORMAT, SCHEMAS
from holdfast.model.errors import InputError
from holdfast.model.incidents import KINDS
from holdfast.wire.codec import decode_untrusted, encode
from holdfast.wire.signals import decode_signal_untrusted, encode_signal
from tests.golden.wire import HERE, frames

CODECS = {"messages": (decode_untrusted, encode), "signals": (decode_signal_untrusted, encode_signal)}
_HEAD = {"messages": 3, "signals": 2}  # bytes of a frame before its message


def golden() -> list[Any]:
    found = []
    for path in sorted(HERE.glob("wire-*.json")):
        for table, entries in json.loads(path.read_text()).items():
            for entry in entries:
                found.append(pytest.param(table, entry["frame"], id=f"{path.stem}-{entry['kind']}"))
    return found


@pytest.mark.parametrize(("table", "frame"), golden())
def test_a_frame_of_an_earlier_version_is_understood_and_only_ever_grew(table: str, frame: str) -> None:
    decode, encode_again = CODECS[table]
    before = bytes.fromhex(frame)
    now = encode_again(decode(before))  # type: ignore[operator]
    assert now[:2] == before[:2]
    if now != before:  # fields were added behind the others, with defaults
        old, new = (msgspec.msgpack.decode(each[_HEAD[table] :]) for each in (before, now))
        assert new[: len(old)] == old
        assert len(new) > len(old)


def test_the_frames_of_this_version_are_kept() -> None:
    kept = json.loads((HERE / "wire-0.3.json").read_text())
    assert kept == frames(), "python -m tests.golden.wire 0.3"


def test_the_trace_of_today_has_the_columns_of_its_golden_one() -> None:
    about = Run(HERE / "trace-3").about
    assert about["format"] == FORMAT == 3, "another format needs a golden trace of its own"
    for name, schema in SCHEMAS.items():
        golden = pa.schema([field for field in schema if field.name not in ADDED.get(name, ())])
        assert pq.read_schema(next((HERE / "trace-3" / name).glob("*.parquet"))).equals(golden), name
    settings = json.loads(about["settings"])
    assert settings["reliability"]["guarantees"]["order"]["target"] == 0.005  # which the file does not say


@pytest.mark.parametrize("trace", ["trace-2", "trace-3"])
def test_an_old_trace_has_the_columns_of_today(trace: str) -> None:
    run = Run(HERE / trace)
    for name, schema in SCHEMAS.items():
        assert run.table(name).schema.names == schema.names, name
    assert set(run.table("incidents")["kind"].to_pylist()) <= KINDS.keys()
    assert {"Delta", "Heartbeat"} <= set(run.table("messages")["kind"].to_pylist())
    assert run.table("samples")["limit"].null_count == 0
    assert not [name for name in run.table("samples")["name"].to_pylist() if name.endswith(" limit")]


def test_a_trace_of_format_2_is_judged_as_version_0_1_judged_it() -> None:
    verdicts = check(HERE / "trace-2")
    assert {name: (each.holds, each.checked, each.broken) for name, each in verdicts.items()} == {
        "P1": (True, 20, 0),
        "P2": (True, 20, 0),
        "P3": (True, 20, 0),
        "P4": (True, 60, 40),  # 38 lost, 2 late, which its crash and its lost messages explain; 0.1 gave the rate alone
        "P5": (True, 0, 0),
        "P6": (True, 14, 0),
        "P7": (True, 838, 0),
    }


@pytest.mark.parametrize("trace", ["trace-2", "trace-3"])
def test_the_failover_of_a_golden_trace_is_found(trace: str) -> None:
    rows = Run(HERE / trace).table("incidents").select(Moment._fields).to_pylist()
    [found] = failovers([Moment(**row) for row in rows if row["kind"] in MOMENTS])
    assert (found.faulty, found.replica, found.copying, found.use) == ("f", "f+1", "ordered", "failover")
    assert found.failed_us == 3_000_000
    assert found.ready_us is not None


@pytest.mark.parametrize(
    ("kind", "about", "columns"),
    [
        ("lease ran out", "b2", {"kind": "lease_expired", "peer": "b2"}),
        ("unrecoverable: nobody answers", "a/b/7", {"kind": "unrecoverable", "reason": "nobody answers"}),
        ("unrecoverable: nobody answers", "a/b/7", {"source": "a/b", "first": 7}),
        ("acknowledged", "p/3", {"kind": "acknowledged", "source": "p", "first": 3, "peer": None}),
        ("duplicate", "p", {"source": "p", "first": None}),
        ("replication: basic, scheduling", "f by f+1", {"kind": "scheduling_requested", "copying": "basic"}),
        ("replaced by", "f by f+1", {"kind": "replaced_by", "peer": "f", "other": "f+1"}),
        ("replication: waiting for advertisements", "f", {"kind": "replica_awaits_advertisements", "peer": "f"}),
        ("replication: replicated", "f", {"kind": "replica_ready", "peer": "f", "copying": None}),
        ("replica not needed", "f answers", {"kind": "replica_not_needed", "peer": "f"}),
        ("replica not linked", "a: it has ended", {"peer": "a", "reason": "it has ended"}),
        ("errand failed", "no such port: 7001", {"kind": "task_failed", "peer": None, "reason": "no such port: 7001"}),
        ("crash", "f", {"kind": "crash", "peer": None}),
        ("bad frames", "", {"kind": "bad_frames", "peer": None}),
    ],
)
def test_the_words_of_format_2_become_columns(kind: str, about: str, columns: dict[str, object]) -> None:
    row = {"node": "n", "time_us": 1, "kind": kind, "about": about, "count": 4}
    [found] = format2.incidents(pa.Table.from_pylist([row], format2.SCHEMAS["incidents"])).to_pylist()
    assert found.items() >= {**columns, "node": "n", "time_us": 1, "count": 4}.items()
    assert found["kind"] in KINDS


def test_samples_of_links_become_rows_of_links() -> None:
    rows = [
        ("b1", 1, "messages to b2", 10.0),
        ("b1", 1, "bytes to b2", 900.0),
        ("b1", 1, "lost to b2", 2.0),
        ("b1", 3, "messages to b2", 5.0),
        ("b1", 3, "queue", 4.0),
        ("b1", 3, "queue limit", 9.0),
        ("b2", 3, "queue", 1.0),
    ]
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    samples = pa.Table.from_arrays(columns, schema=format2.SCHEMAS["samples"])
    assert [tuple(row.values()) for row in format2.links(samples).to_pylist()] == [
        ("b1", "b2", 0, 1, 10, 900, 2),
        ("b1", "b2", 1, 3, 5, 0, 0),
    ]
    found = sorted(tuple(row.values()) for row in format2.samples(samples).to_pylist())
    assert found == [("b1", 3, "queue", 4.0, 9.0), ("b2", 3, "queue", 1.0, None)]


def test_a_format_of_the_future_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    pq.write_table(pa.table({"format": [4]}), tmp_path / "run" / "part-00000.parquet")
    with pytest.raises(InputError, match=r"format 4, this version reads 2 and 3; see docs/compatibility.md"):
        Run(tmp_path)
