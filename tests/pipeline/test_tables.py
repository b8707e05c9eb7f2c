"""Results as Delta Lake and Iceberg tables: commits, conflicts and refusals, read by somebody else."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.delta_judge import replayed, rows, strays
from holdfast import cli
from holdfast.model.errors import InputError
from holdfast.pipeline.tables.drafts import DraftTables
from holdfast.pipeline.tables.target import BatchId, Mode, Target, mode_of, parse_target

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")


@dataclass(frozen=True)
class Lake:
    target: Target
    read: Callable[[], list[dict[str, Any]]]

    def write(self, table: pa.Table, mode: Mode = "create") -> None:
        with DraftTables(self.target, mode, ["matches"]) as draft:
            draft.write("matches", table)

    def commit(self, table: pa.Table, batch: BatchId) -> None:
        """As a stream does: the draft is there for longer than a batch."""
        tables = DraftTables(self.target, "append", ["matches"])
        try:
            tables.write("matches", table)
            tables.commit_folder("matches", tables.draft / "matches", batch)
        finally:
            tables.discard()

    def last(self, writer: str) -> int | None:
        tables = DraftTables(self.target, "append", [])
        try:
            return tables.last_batch("matches", writer)
        finally:
            tables.discard()


@pytest.fixture(params=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    if request.param == "delta":
        return Lake(Target("delta", str(tmp_path / "lake")), lambda: in_order(rows(tmp_path / "lake" / "matches")))
    from pyiceberg.utils.config import Config

    monkeypatch.setenv("PYICEBERG_CATALOG__SHORE__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__SHORE__WAREHOUSE", f"file://{tmp_path}/warehouse")
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # it is read when PyIceberg is imported
    return Lake(Target("iceberg", "shore.wanted"), read_iceberg)


def read_iceberg() -> list[dict[str, Any]]:
    """The files of the newest snapshot, read by DuckDB."""
    from pyiceberg.catalog import load_catalog

    tasks = load_catalog("shore").load_table("wanted.matches").scan().plan_files()
    files = [task.file.file_path.removeprefix("file://") for task in tasks]
    return in_order(duckdb.connect().read_parquet(files).to_arrow_table()) if files else []


def in_order(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: (row["id"], row["subscription"]))


def pairs(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "subscription": pa.array(["a"] * len(ids), pa.string())})


def as_rows(*ids: int) -> list[dict[str, Any]]:
    return [{"id": each, "subscription": "a"} for each in ids]


def test_tables_are_made_added_to_and_replaced(lake: Lake) -> None:
    lake.write(pairs(1, 2))
    lake.write(pairs(3), "append")
    assert lake.read() == as_rows(1, 2, 3)
    lake.write(pairs(4), "replace")
    assert lake.read() == as_rows(4)
    lake.write(pairs(), "append")
    assert lake.read() == as_rows(4)


def test_a_table_that_is_there_is_not_written_unasked(lake: Lake) -> None:
    lake.write(pairs(1))
    with pytest.raises(InputError, match="this table exists; add to it with --append, or replace"):
        lake.write(pairs(2))
    assert lake.read() == as_rows(1)


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_a_table_keeps_its_columns(lake: Lake, mode: Mode) -> None:
    lake.write(pairs(1))
    other = pa.table({"id": ["x"], "price": [1.0], "subscription": ["a"]})
    with pytest.raises(InputError, match=r"id: int64 there, string in the result; price: none there, double in the"):
        lake.write(other, mode)
    assert lake.read() == as_rows(1)


def test_each_batch_of_a_writer_is_committed_once(lake: Lake) -> None:
    assert lake.last("s") is None
    lake.commit(pairs(1), BatchId("s", 0))
    for number in (0, 1):
        assert lake.last("s") == number
        with pytest.raises(InputError, match=f"batch {number} is there already; another driver runs this stream"):
            lake.commit(pairs(9), BatchId("s", number))
        lake.commit(pairs(number + 2), BatchId("s", number + 1))
    lake.commit(pairs(7), BatchId("other", 0))
    assert lake.read() == as_rows(1, 2, 3, 7)
    assert (lake.last("s"), lake.last("other")) == (2, 0)


def test_a_batch_without_pairs_is_remembered(lake: Lake) -> None:
    lake.commit(pairs(), BatchId("s", 0))
    assert lake.last("s") == 0
    assert lake.read() == []


def test_a_table_cannot_hold_every_type(lake: Lake) -> None:
    odd = pa.table({"id": pa.array([1], pa.uint64()), "at": pa.array([1], pa.timestamp("ns")), "subscription": ["a"]})
    with pytest.raises(InputError, match=r"cannot hold these columns: id is uint64, at is timestamp\[ns\]; cast them"):
        lake.write(odd)


# Other writers -----------------------------------------------------------------------------------------------------


class Meanwhile:
    """Somebody else commits between our look at the table and our commit, the first time."""

    def __init__(self, original: Callable[..., Any], act: Callable[[], None]) -> None:
        self._original, self._act, self._left = original, act, 1

    def __call__(self, *arguments: Any) -> Any:
        found = self._original(*arguments)
        if self._left:
            self._left = 0
            self._act()
        return found


def meanwhile(lake: Lake, monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    if lake.target.form == "delta":
        from holdfast.pipeline.tables import delta

        monkeypatch.setattr(delta, "Transaction", Meanwhile(delta.Transaction, act))
    else:
        from holdfast.pipeline.tables import iceberg

        monkeypatch.setattr(iceberg, "_batch_in", Meanwhile(iceberg._batch_in, act))


def test_another_writers_commit_costs_no_row(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.write(pairs(1))
    meanwhile(lake, monkeypatch, lambda: lake.write(pairs(2), "append"))
    lake.commit(pairs(3), BatchId("s", 0))
    assert lake.read() == as_rows(1, 2, 3)


def test_a_second_driver_of_a_stream_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.write(pairs(1))
    meanwhile(lake, monkeypatch, lambda: lake.commit(pairs(5), BatchId("s", 0)))
    with pytest.raises(InputError, match="batch 0 is there already"):
        lake.commit(pairs(5), BatchId("s", 0))
    assert lake.read() == as_rows(1, 5)


# Delta's folder ----------------------------------------------------------------------------------------------------


def test_files_of_a_killed_writer_are_not_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.pipeline.tables import delta

    here = Lake(Target("delta", str(tmp_path / "lake")), lambda: in_order(rows(tmp_path / "lake" / "matches")))
    here.write(pairs(1))

    def killed(*_: Any) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(delta, "Transaction", killed)
        with pytest.raises(RuntimeError, match="killed"):
            here.commit(pairs(2), BatchId("s", 0))
    table = tmp_path / "lake" / "matches"
    assert len(strays(table)) == 1 and here.read() == as_rows(1)
    everything = duckdb.connect().read_parquet(str(table / "*.parquet")).to_arrow_table()
    assert everything.num_rows == 2  # what a reader sees who does not know the log
    here.commit(pairs(2), BatchId("s", 0))
    assert here.read() == as_rows(1, 2)


def test_a_refused_commit_leaves_no_file(tmp_path: Path) -> None:
    here = Lake(Target("delta", str(tmp_path / "lake")), list)
    here.commit(pairs(1), BatchId("s", 0))
    with pytest.raises(InputError):
        here.commit(pairs(1), BatchId("s", 0))
    assert not strays(tmp_path / "lake" / "matches")
    assert [each.name for each in tmp_path.iterdir()] == ["lake"]  # nor a draft


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "lake" / "matches").mkdir(parents=True)
    (tmp_path / "lake" / "matches" / "letter.txt").touch()
    with pytest.raises(InputError, match="there is something, and no Delta table"):
        Lake(Target("delta", str(tmp_path / "lake")), list).write(pairs(1))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_place_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot be written"):
        Lake(Target("delta", str(tmp_path / "lake")), list).write(pairs(1))


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"delta:.*file/lake: cannot be written"):
        Lake(Target("delta", str(tmp_path / "file" / "lake")), list).write(pairs(1))


def test_the_judge_convicts_tampered_logs(tmp_path: Path) -> None:
    here = Lake(Target("delta", str(tmp_path / "lake")), list)
    for number in range(3):
        here.commit(pairs(number), BatchId("s", number))
    table = tmp_path / "lake" / "matches"
    assert replayed(table).writers == {"s": [0, 1, 2]}
    second, third = (table / "_delta_log" / f"{number:020}.json" for number in (1, 2))
    kept = second.read_text()
    second.write_text(third.read_text())
    with pytest.raises(AssertionError, match="is added twice"):
        replayed(table)
    second.write_text(kept.replace('\\"numRecords\\": 1', '\\"numRecords\\": 2'))
    with pytest.raises(AssertionError, match="the log says 4 rows, the files have 3"):
        rows(table)
    second.unlink()
    with pytest.raises(AssertionError, match="commits are missing"):
        replayed(table)


# The command line --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("dleta:/lake", "expected FORMAT:PLACE such as delta:/lake/wanted"),
        ("/lake/wanted", "expected FORMAT:PLACE"),
        ("delta:", "delta: names no place"),
        ("iceberg:wanted", "expected iceberg:CATALOG.NAMESPACE"),
        ("iceberg:/lake/wanted", "expected iceberg:CATALOG.NAMESPACE"),
    ],
)
def test_a_wrong_place_is_told(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        parse_target(text)


def test_spark_writes_where_the_tasks_cannot() -> None:
    assert not parse_target("delta:/lake").is_sparks({}) and not parse_target("delta:file:///lake").is_sparks({})
    assert parse_target("delta:s3a://bucket/lake").is_sparks({}) and parse_target("parquet:/lake").is_sparks({})
    lake = parse_target("iceberg:lake.wanted")
    assert lake.is_sparks({"spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog"})
    assert not lake.is_sparks({"spark.sql.catalog.other": "org.apache.iceberg.spark.SparkCatalog"})
    with pytest.raises(InputError, match="exclude each other"):
        mode_of(append=True, overwrite=True)


def match(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as caught:
        cli.main(["match", *map(str, words)])
    return int(caught.value.code or 0)


def test_a_match_becomes_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"id": [1, 2, 3], "price": [5.0, 15.0, 9.0]}), "trades.parquet")
    wishes = [{"id": "cheap", "condition": "price < 10"}, {"id": "bad", "condition": "price <"}]
    Path("wishes.jsonl").write_text("\n".join(map(json.dumps, wishes)))
    tables = ["trades.parquet", "wishes.jsonl", "--key", "id", "--skip-invalid"]
    assert match(*tables, "--to", "delta:lake") == 0
    assert "result in delta:lake" in capsys.readouterr().out
    found = [{"id": 1, "subscription": "cheap"}, {"id": 3, "subscription": "cheap"}]
    assert in_order(rows(Path("lake/matches"))) == found
    assert rows(Path("lake/rejected"))["id"].to_pylist() == ["bad"]
    assert match(*tables, "--to", "delta:lake") == 2
    assert "this table exists" in capsys.readouterr().err
    assert match(*tables, "--counts", "--to", "delta:lake", "--append") == 0
    assert rows(Path("lake/counts")).to_pylist() == [{"subscription": "cheap", "events": 2}]
    assert rows(Path("lake/rejected")).num_rows == 2
    for words, told in (
        ([], "expected --out FOLDER or --to FORMAT:PLACE"),
        (["--out", "o", "--to", "delta:lake"], "and not both"),
        (["--out", "o", "--append"], "--append adds to tables, which --to names"),
        (["--to", "parquet:s3a://bucket/x", "--engine", "embedded"], "only Spark writes there"),
    ):
        assert match(*tables, *words) == 2
        assert told in capsys.readouterr().err
