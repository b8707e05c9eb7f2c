"""`holdfast match`: files in, a folder of tables out, and what happens when something is wrong."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from holdfast import cli
from holdfast.pipeline.match import write as match_write
from tests.pipeline.judges import duckdb_pairs, pairs

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

EVENTS = pa.table(
    {
        "id": [1, 2, 3, 4],
        "symbol": ["IBM", "MSFT", "IBM", None],
        "price": [119.5, 20.0, 130.0, 5.0],
        "note": ['say "hi"', "a, b", "", None],
    }
)
CONDITIONS = {
    "cheap": "symbol = 'IBM' AND price < 120",
    "007": "price < 100",
    "odd": "note LIKE 'a,%' OR note = 'say \"hi\"'",
}
EXPECTED = duckdb_pairs(EVENTS, CONDITIONS)


def holdfast(*words: str | Path) -> int:
    """On Spark: what both engines do alike is compared by test_match_engines.py."""
    with pytest.raises(SystemExit) as caught:
        cli.main([*map(str, words), "--engine", "spark"])
    return int(caught.value.code or 0)


def events_file(folder: Path, form: str) -> Path:
    path = folder / f"events.{form}"
    if form == "parquet":
        pq.write_table(EVENTS, path)
    elif form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in EVENTS.to_pylist()))
    else:
        pyarrow.csv.write_csv(EVENTS, path)
    return path


def wishes_file(folder: Path, form: str) -> Path:
    path = folder / f"wishes.{form}"
    table = pa.table({"id": list(CONDITIONS), "condition": list(CONDITIONS.values())})
    if form == "parquet":
        pq.write_table(table, path)
    elif form == "csv":
        pyarrow.csv.write_csv(table, path)
    elif form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        lines = [f"{json.dumps(id_)} = {json.dumps(text)}" for id_, text in CONDITIONS.items()]
        path.write_text("\n".join(["[subscriptions]", *lines]))
    return path


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return events_file(tmp_path, "parquet"), wishes_file(tmp_path, "jsonl")


@pytest.mark.parametrize(
    ("form", "wishes"), [("parquet", "parquet"), ("jsonl", "csv"), ("csv", "toml"), ("csv", "jsonl")]
)
def test_tables_of_every_format_give_the_same_pairs(tmp_path: Path, form: str, wishes: str) -> None:
    arguments = (events_file(tmp_path, form), wishes_file(tmp_path, wishes))
    assert holdfast("match", *arguments, "--key", "id", "--keep", "symbol", "--out", tmp_path / "out") == 0
    found = pq.read_table(tmp_path / "out" / "matches")
    assert found.schema.names == ["id", "subscription", "symbol"]
    assert found.schema.field("subscription").type == pa.string()
    assert pairs(found) == EXPECTED
    assert dict(zip(found["id"].to_pylist(), found["symbol"].to_pylist(), strict=True))[2] == "MSFT"


def test_json_tells_the_figures(tmp_path: Path, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert holdfast("match", *files, "--out", tmp_path / "out", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["events"], told["subscriptions"], told["pairs"]) == (4, 3, len(EXPECTED))
    assert (told["rejected"], told["indexes"], len(told["task_seconds"])) == (0, 1, 1)


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_counts_take_the_place_of_pairs(tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (events_file(tmp_path, form), wishes_file(tmp_path, "csv"))
    assert holdfast("match", *arguments, "--counts", "--out", tmp_path / "out", "--json") == 0
    counts = {row["subscription"]: row["events"] for row in pq.read_table(tmp_path / "out" / "counts").to_pylist()}
    ids = [id_ for _, id_ in EXPECTED]
    assert counts == {id_: ids.count(id_) for id_ in set(ids)}
    assert not (tmp_path / "out" / "matches").exists()
    told = json.loads(capsys.readouterr().out)
    assert (told["events"], told["pairs"]) == (4, len(ids))


def test_an_existing_result_is_refused_and_with_overwrite_replaced(
    tmp_path: Path, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert holdfast("match", *files, "--out", out) == 0
    before = {path.name for path in (out / "matches").iterdir()}
    assert holdfast("match", *files, "--key", "id", "--out", out) == 2
    assert "exists already; choose another folder, or replace it with --overwrite" in capsys.readouterr().err
    assert {path.name for path in (out / "matches").iterdir()} == before
    assert holdfast("match", *files, "--key", "id", "--out", out, "--overwrite") == 0
    assert pairs(pq.read_table(out / "matches")) == EXPECTED
    assert sorted(path.name for path in tmp_path.iterdir()) == ["events.parquet", "out", "wishes.jsonl"]


def test_a_folder_that_holds_something_else_is_never_replaced(tmp_path: Path, files: tuple[Path, Path]) -> None:
    precious = tmp_path / "home"
    precious.mkdir()
    (precious / "letter.txt").write_text("dear")
    assert holdfast("match", *files, "--out", precious, "--overwrite") == 2
    assert (precious / "letter.txt").read_text() == "dear"


def test_a_run_that_fails_leaves_the_old_result_and_nothing_else(
    tmp_path: Path, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert holdfast("match", *files, "--key", "id", "--out", out) == 0
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"id": 1, "price": 3}\n{"id": 2, "price":\n')
    assert holdfast("match", broken, files[1], "--out", out, "--overwrite", "--schema", "id int, price double") == 2
    told = capsys.readouterr().err
    assert told.startswith("holdfast: ") and "Malformed" in told and "Traceback" not in told
    assert pairs(pq.read_table(out / "matches")) == EXPECTED
    assert not list(tmp_path.glob(".out*"))


def test_files_of_attempts_that_failed_are_not_part_of_the_result(tmp_path: Path) -> None:
    attempts, place = tmp_path / "attempts", tmp_path / "place"
    place.mkdir()
    attempts.mkdir()
    for name in ("kept", "failed"):
        pq.write_table(pa.table({"row": [1], "subscription": ["a"]}), attempts / name)
    schema = pa.schema([("row", pa.int64()), ("subscription", pa.string())])
    match_write.settle(attempts, place, [match_write.Written("kept", 1, 1, 0.1)], schema)
    assert [path.name for path in place.iterdir()] == ["kept"]
    assert not attempts.exists()


def test_no_pair_at_all_still_gives_a_table(tmp_path: Path, files: tuple[Path, Path]) -> None:
    wishes = tmp_path / "none.csv"
    wishes.write_text("id,condition\na,price > 1000\n")
    assert holdfast("match", files[0], wishes, "--keep", "symbol", "--out", tmp_path / "out") == 0
    found = pq.read_table(tmp_path / "out" / "matches")
    assert (found.schema.names, found.num_rows) == (["row", "subscription", "symbol"], 0)


def test_invalid_conditions_stop_the_run_or_become_a_table(
    tmp_path: Path, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    wishes = tmp_path / "mixed.csv"
    wishes.write_text("id,condition\ngood,price < 100\nbad,price <\nworse,price LIKE 3\n")
    assert holdfast("match", files[0], wishes, "--key", "id", "--out", tmp_path / "out") == 2
    told = capsys.readouterr().err
    assert "2 subscriptions are not valid" in told and "bad: line 1" in told and "worse: line 1" in told
    assert not (tmp_path / "out").exists()
    assert holdfast("match", files[0], wishes, "--key", "id", "--out", tmp_path / "out", "--skip-invalid") == 0
    rejected = pq.read_table(tmp_path / "out" / "rejected").to_pylist()
    assert [(row["id"], row["condition"]) for row in rejected] == [("bad", "price <"), ("worse", "price LIKE 3")]
    assert {id_ for _, id_ in pairs(pq.read_table(tmp_path / "out" / "matches"))} == {"good"}


def test_conditions_that_no_event_can_satisfy_are_warned_of(
    tmp_path: Path, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    wishes = tmp_path / "odd.csv"
    wishes.write_text("id,condition\na,prize < 100\nb,price = 'x'\nc,price = 'y' OR id > 3\n")
    assert holdfast("match", files[0], wishes, "--out", tmp_path / "out") == 0
    told = capsys.readouterr().err
    assert "warning: 2 subscriptions look at price as a string, and it holds numbers" in told
    assert "warning: 1 subscription looks at prize, and the events have no such column" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nowhere.parquet", "wishes.jsonl"), "nowhere.parquet: there is no such file or folder"),
        (("events.parquet", "nowhere.csv"), "nowhere.csv: there is no such file or folder"),
        (("events.parquet", "wishes.txt"), "expected files that all end in .parquet, in .jsonl or in .csv"),
        (("events.parquet", "wishes.jsonl", "--format", "xml"), "expected parquet, jsonl, csv, found xml"),
        (("events.parquet", "wishes.jsonl", "--once"), "go with --stream"),
        (("events.parquet", "wishes.jsonl", "--conf", "a"), "--conf: expected KEY=VALUE, found a"),
        (("wishes.jsonl", "events.parquet"), "expected columns id and condition"),
    ],
)
def test_mistakes_are_told_in_one_line(
    tmp_path: Path,
    files: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wishes.txt").touch()
    assert holdfast("match", *words, "--out", "out") == 2
    message = capsys.readouterr().err
    assert told in message
    assert len(message.splitlines()) == 1
    assert not Path("out").exists()


def test_folders_that_name_a_column_are_read_with_it(tmp_path: Path) -> None:
    for day in (1, 2):
        folder = tmp_path / "events" / f"day={day}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [day]}), folder / "part.parquet")
    wishes = tmp_path / "wishes.csv"
    wishes.write_text("id,condition\na,day = 2\n")
    assert (
        holdfast("match", tmp_path / "events", wishes, "--key", "id", "--keep", "day", "--out", tmp_path / "out") == 0
    )
    assert pq.read_table(tmp_path / "out" / "matches").to_pylist() == [{"id": 2, "subscription": "a", "day": 2}]


def test_the_newest_version_of_the_subscriptions_counts(tmp_path: Path, files: tuple[Path, Path], spark: Any) -> None:
    versions = tmp_path / "versions"
    for number, condition in ((2, "id = 2"), (10, "id = 3"), (11, "id = 4")):
        (versions / f"version={number}").mkdir(parents=True)
        (versions / f"version={number}" / "s.csv").write_text(f"id,condition\nx,{condition}\n")
    (versions / "version=11" / "_temporary").mkdir()  # still being written
    assert holdfast("match", files[0], versions, "--key", "id", "--out", tmp_path / "out") == 0
    assert pairs(pq.read_table(tmp_path / "out" / "matches")) == [(3, "x")]
    column = tmp_path / "column.csv"
    column.write_text("id,version,condition\nx,1,id = 1\nx,2,id = 2\ny,2,id = 4\n")
    assert holdfast("match", files[0], column, "--key", "id", "--out", tmp_path / "out2") == 0
    assert pairs(pq.read_table(tmp_path / "out2" / "matches")) == [(2, "x"), (4, "y")]


def test_footers_of_many_files_are_read_in_tasks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = tmp_path / "events"
    events.mkdir()
    for number in range(70):
        kind = pa.int32() if number % 2 else pa.int64()
        rows = pa.table({"id": pa.array([number, number + 100], kind), "price": [number, 200]})
        pq.write_table(rows, events / f"{number:02}.parquet", row_group_size=1)
    wishes = wishes_file(tmp_path, "parquet")
    assert holdfast("match", events, wishes, "--out", tmp_path / "out") == 0
    found = pq.read_table(tmp_path / "out" / "matches")
    expected = [(2 * number, "007") for number in range(70)]
    assert sorted(zip(*(found[name].to_pylist() for name in ("row", "subscription")), strict=True)) == expected
    (events / "66.parquet").write_bytes(b"PAR1 and no more")
    assert holdfast("match", events, wishes, "--out", tmp_path / "again") != 0
    assert "66.parquet: not a Parquet file, or a damaged one" in capsys.readouterr().err
