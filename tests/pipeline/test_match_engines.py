"""`holdfast match` in this process and on Spark: the same tables, the same mistakes, and what is left to Spark."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast import cli
from holdfast.model.errors import InputError
from holdfast.pipeline.match.embedded import EmbeddedMatch
from holdfast.pipeline.match.small_tables import NeedsSparkError

CONDITIONS = (
    "n < 5",
    "price BETWEEN 1 AND 3 OR n = 7",
    "text LIKE 'a%' AND NOT flag",
    "home.team = 'x'",
    "home.team IS NULL AND price > 0",
    "'a' = ANY(tags)",
    "missing IS NULL",
    "text IN ('a', 'b') AND n % 2 = 0",
)


def drawn(dice: Random) -> dict[str, Any]:
    fields = {
        "n": dice.randint(-3, 9),
        "price": dice.choice([dice.randint(0, 4), dice.random() * 4]),
        "text": dice.choice(["a", "ab", "b", ""]),
        "flag": dice.random() < 0.5,
        "home": dice.choice([{"team": "x"}, {"team": None}, None]),
        "tags": dice.choice([["a", "b"], ["b", None], []]),
    }
    return {name: value if dice.random() < 0.8 else None for name, value in fields.items() if dice.random() < 0.9}


def written(folder: Path, dice: Random) -> tuple[Path, Path]:
    """A table of events, as Parquet or JSONL, and one of subscriptions."""
    rows = [{"id": at, **drawn(dice)} for at in range(dice.choice([0, 1, 60]))]
    wanted = [{"id": f"s{at}", "condition": each} for at, each in enumerate(CONDITIONS) if dice.random() < 0.8]
    if rows and dice.random() < 0.5:
        kinds = pa.schema(
            [
                ("id", pa.int64()),
                ("n", pa.int32()),
                ("price", pa.float64()),
                ("text", pa.string()),
                ("flag", pa.bool_()),
                ("home", pa.struct([("team", pa.string())])),
                ("tags", pa.list_(pa.string())),
            ]
        )
        events = folder / "events.parquet"
        pq.write_table(pa.Table.from_pylist(rows, kinds), events, row_group_size=25)
    else:
        events = folder / "events.jsonl"
        events.write_text("".join(f"{json.dumps(each)}\n" for each in rows) or '{"id": 0}\n')
    subscriptions = folder / "wanted.jsonl"
    subscriptions.write_text("".join(f"{json.dumps(each)}\n" for each in wanted) or '{"id": "s", "condition": "n = 1"}')
    return events, subscriptions


def rows_of(folder: Path) -> tuple[pa.Schema, list[str]]:
    table = pq.read_table(folder)
    return table.schema, sorted(map(repr, table.to_pylist()))


@pytest.mark.parametrize("seed", range(6))
def test_both_engines_write_the_same_rows(seed: int, tmp_path: Path, spark: Any) -> None:
    from holdfast.pipeline.match.job import MatchJob

    dice = Random(seed)
    events, subscriptions = written(tmp_path, dice)
    chosen: dict[str, Any] = dice.choice([{"key": ["id"], "keep": ["*"]}, {"key": ["id"]}, {"counts": True}])
    table = "counts" if "counts" in chosen else "matches"
    here = EmbeddedMatch(str(events), str(subscriptions), str(tmp_path / "here"), **chosen).run()
    there = MatchJob(str(events), str(subscriptions), str(tmp_path / "there"), **chosen).run(spark)
    assert rows_of(tmp_path / "here" / table) == rows_of(tmp_path / "there" / table)
    same = ("events", "subscriptions", "pairs", "rejected", "warnings")
    assert [getattr(here, each) for each in same] == [getattr(there, each) for each in same]
    assert (here.engine, there.engine) == ("embedded", "spark")


def small(folder: Path, events: str, wanted: str = "n < 5") -> EmbeddedMatch:
    (folder / "events.jsonl").write_text(events)
    (folder / "wanted.jsonl").write_text(json.dumps({"id": 7, "condition": wanted}))
    return EmbeddedMatch(str(folder / "events.jsonl"), str(folder / "wanted.jsonl"), str(folder / "out"))


def test_rows_without_a_key_are_numbered_and_integer_ids_stay_integers(tmp_path: Path) -> None:
    assert small(tmp_path, '{"n": 9}\n\n{"n": 1}\n').run().pairs == 1
    assert pq.read_table(tmp_path / "out" / "matches").to_pylist() == [{"row": 1, "subscription": 7}]


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ('{"n": 1}\n{"n": "one"}', "several kinds"),
        ('{"n": 1}\n[1]', "not an object"),
        ('{"n": 100000000000000000000}', "64 bits"),
        ('{"n": NaN}', "NaN"),
        ('{"n": 1}\n{"n": {"m": 2}}', "two ways"),
        ('{"n": 1, "N": 2}', "two ways"),
        ('{"n": [[1]]}', "several kinds"),
        ('{"n": "\\ud800"}', "Arrow"),
    ],
)
def test_what_spark_would_have_to_guess_is_left_to_it_and_nothing_is_written(
    events: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(NeedsSparkError, match=why):
        small(tmp_path, events).run()
    assert not (tmp_path / "out").exists()


def test_large_tables_and_csv_are_left_to_spark(tmp_path: Path) -> None:
    with pytest.raises(NeedsSparkError, match="more than 1 events"):
        small(tmp_path, '{"n": 1}\n{"n": 2}').run(events_max=1)
    (tmp_path / "events.csv").write_text("n\n1\n")
    with pytest.raises(NeedsSparkError, match="guesses"):
        EmbeddedMatch(str(tmp_path / "events.csv"), str(tmp_path / "wanted.jsonl"), str(tmp_path / "out")).run()


def test_a_malformed_line_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 2: expected a JSON object"):
        small(tmp_path, '{"n": 1}\n{oops').run()


def test_the_command_says_which_engine_it_took_and_refuses_what_does_not_go_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def match(*words: str) -> int | str | None:
        with pytest.raises(SystemExit) as caught:
            cli.main(["match", *map(str, (tmp_path / "events.jsonl", tmp_path / "wanted.jsonl")), *words])
        return caught.value.code

    small(tmp_path, '{"n": 1}')
    out = "--out", str(tmp_path / "out"), "--overwrite"
    assert not match(*out, "--json")
    assert json.loads(capsys.readouterr().out)["engine"] == "embedded"
    assert match(*out, "--engine", "embedded", "--master", "local[2]") == 2
    assert "are Spark's" in capsys.readouterr().err
    (tmp_path / "events.jsonl").write_text('{"n": 1}\n{"n": "one"}')
    assert match(*out, "--engine", "embedded") == 2
    assert "give --engine spark" in capsys.readouterr().err
