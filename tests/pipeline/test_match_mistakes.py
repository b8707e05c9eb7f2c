"""`holdfast match` given odd files, names, types and places: a right result or one clear line, and nothing lost."""

import fcntl
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast import cli
from holdfast.model.errors import InputError
from holdfast.pipeline.result_folder import ResultFolder
from holdfast.pipeline.session import why_not_started
from holdfast.pipeline.spark_errors import explained, reason

WISHES = "id,condition\nall,price >= 0\n"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def match(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as caught:
        cli.main(["match", *map(str, words)])
    return int(caught.value.code or 0)


def rows(out: Path | str, table: str = "matches") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(Path(out) / table).to_pylist()
    return found


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: Any) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("wishes.csv").write_text(WISHES)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("short.csv", "id,price,note\n1,2,a\n2,3\n", "Malformed CSV record: 2,3"),
        ("long.csv", "id,price,note\n1,2,a\n2,3,b,c\n", "Malformed CSV record: 2,3,b,c"),
        (
            "cut.jsonl",
            '{"id": 1, "price": 3}\n{"id": 2,\n',
            'cut.jsonl: line 2: expected a JSON object, found {"id": 2,',
        ),
        ("bare.jsonl", '1\n"x"\n', "invalid type of a JSON record"),
        ("cases.jsonl", '{"Price": 1, "price": 2}\n', "The column `price` already exists"),
        (
            "_hidden.jsonl",
            '{"price": 1}\n',
            "_hidden.jsonl: Spark takes no file for data whose name begins with _ or .",
        ),
        ("packed.jsonl.gz", "not packed", "packed.jsonl.gz. (not a gzip file)"),
        ("days/day=1/a.jsonl", '{"price": 1}\n', "expected all files in folders that name a column"),
    ],
)
def test_files_that_cannot_be_read_whole_are_refused_in_one_line(
    here: Path, capsys: pytest.CaptureFixture[str], name: str, content: str, told: str
) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(content)
    if name.startswith("days"):
        Path("days/b.jsonl").write_text(content)
    assert match(name.split("/", maxsplit=1)[0], "wishes.csv", "--out", "out") == 2
    message = capsys.readouterr().err
    assert told in message
    assert len(message.splitlines()) == 1
    assert sorted(os.listdir()) == sorted({name.split("/", maxsplit=1)[0], "wishes.csv"})


def test_files_in_folders_within_the_folder_are_read_too(here: Path) -> None:
    Path("events/deep").mkdir(parents=True)
    for number, path in enumerate(("events/a.jsonl", "events/deep/b.jsonl")):
        Path(path).write_text(json.dumps({"id": number, "price": 1}))
    assert match("events", "wishes.csv", "--key", "id", "--out", "out") == 0
    assert sorted(row["id"] for row in rows("out")) == [0, 1]


def test_names_with_the_signs_of_patterns_are_names(here: Path) -> None:
    Path("e[1]{a}*.jsonl").write_text('{"id": 7, "price": 1}')
    Path("w[1].csv").write_text(WISHES)
    assert match("e[1]{a}*.jsonl", "w[1].csv", "--key", "id", "--out", "o[1]{a}*") == 0
    assert rows("o[1]{a}*") == [{"id": 7, "subscription": "all"}]
    assert match("e[1]{a}*.jsonl", "w[1].csv", "--counts", "--out", "c[1]") == 0
    assert rows("c[1]", "counts") == [{"subscription": "all", "events": 1}]


def test_odd_columns_are_kept_as_they_are(here: Path) -> None:
    odd = {
        "price": [1.0, 2.0],
        "row": pa.array([5, None]),
        "at": pa.array([NOON, None], pa.timestamp("ns", "Europe/Berlin")),
        "half": pa.array([1.5, 2.5], pa.float16()),
        'q"`.': ["x", None],
        "é" * 300: [1, 2],
    }
    pq.write_table(pa.table(odd), "odd.parquet")
    assert match("odd.parquet", "wishes.csv", "--key", "row", "--keep", "*", "--out", "out") == 0
    first, second = sorted(rows("out"), key=lambda row: row["price"])
    assert (first["row"], first["at"], first["half"], first['q"`.'], first["é" * 300]) == (5, NOON, 1.5, "x", 1)
    assert (second["row"], second["at"], second['q"`.']) == (None, None, None)


def test_counts_without_any_pair_still_say_how_many_events_there_were(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("events.jsonl").write_text('{"price": -1}\n{"price": -2}\n')
    assert match("events.jsonl", "wishes.csv", "--counts", "--out", "out", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["events"], told["pairs"]) == (2, 0)


def test_subscriptions_without_a_version_in_a_column_of_versions_all_count(here: Path) -> None:
    pq.write_table(pa.table({"price": [1.0]}), "events.parquet")
    none = pa.array([None, None], pa.int64())
    pq.write_table(pa.table({"id": ["a", "b"], "condition": ["price > 0"] * 2, "version": none}), "wishes.parquet")
    assert match("events.parquet", "wishes.parquet", "--out", "out") == 0
    assert sorted(row["subscription"] for row in rows("out")) == ["a", "b"]


def test_no_subscription_at_all_is_warned_of(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"price": [1.0]}), "events.parquet")
    Path("none.toml").write_text("[subscriptions]\n")
    assert match("events.parquet", "none.toml", "--out", "out") == 0
    assert "warning: there are no subscriptions, so nothing matches" in capsys.readouterr().err


@pytest.mark.parametrize("out", ["wishes.csv/out", "/proc/nowhere/out"])
def test_a_place_that_cannot_be_written_is_told_before_any_work(
    here: Path, capsys: pytest.CaptureFixture[str], out: str
) -> None:
    pq.write_table(pa.table({"price": [1.0]}), "events.parquet")
    assert match("events.parquet", "wishes.csv", "--out", out) == 2
    message = capsys.readouterr().err
    assert f"{out}: cannot be written" in message and len(message.splitlines()) == 1


# The folder of a result, without Spark -----------------------------------------------------------------------------


def test_of_two_jobs_with_one_place_the_second_is_refused_while_the_first_is_at_work(tmp_path: Path) -> None:
    first = ResultFolder(tmp_path / "out", overwrite=False)
    with pytest.raises(InputError, match="another job is writing a result there"):
        ResultFolder(tmp_path / "out", overwrite=True)
    first.table("matches")
    first.commit()
    first.discard()
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "matches"]


def test_a_result_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    mine = ResultFolder(tmp_path / "out", overwrite=False)
    (tmp_path / "out" / "matches").mkdir(parents=True)
    with pytest.raises(InputError, match="exists already"):
        mine.commit()
    mine.discard()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_a_killed_job_has_left_is_cleared_and_what_others_have_is_not(tmp_path: Path) -> None:
    dead, alive = (tmp_path / f".{name}.{'0' * 32}.unfinished" for name in ("out", "other"))
    for path in (dead, alive):
        path.mkdir()
        (path / "part").touch()
    lock = os.open(alive, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    ResultFolder(tmp_path / "out", overwrite=False).discard()
    os.close(lock)
    assert [path.name for path in tmp_path.iterdir()] == [alive.name]


def test_what_the_system_says_of_a_file_becomes_one_line() -> None:
    with pytest.raises(InputError, match="out: No space left on device"), explained():
        raise OSError(28, "No space left on device", "out")
    with pytest.raises(ConnectionRefusedError), explained():
        raise ConnectionRefusedError(111, "Connection refused")
    in_task = "Traceback ...\n  File x\nOSError: [Errno 28] No space left on device\n\n\tat org.apache"
    assert reason(Exception(in_task)) == "OSError: [Errno 28] No space left on device"
    assert reason(Exception("java.lang.NullPointerException")) is None


@pytest.mark.parametrize(
    ("error", "banners", "told"),
    [
        (
            "calling None.x\n: org.apache.spark.SparkException: Asked to run locally with 0 threads\n\tat x",
            "",
            "Asked to",
        ),
        (
            "[JAVA_GATEWAY_EXITED] Java gateway",
            "Invalid maximum heap size: -Xmxabc\nError: Could",
            "Invalid maximum heap",
        ),
        ("stopped", "WARN\nERROR: All masters are unresponsive! Giving up.\n\tat x", "All masters are unresponsive!"),
        ("", "", "no reason was given"),
    ],
)
def test_why_spark_does_not_start_is_one_line(error: str, banners: str, told: str) -> None:
    why = why_not_started(error, banners)
    assert why.startswith(told) and "\n" not in why
