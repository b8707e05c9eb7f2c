"""An index over its budget: subscriptions in shards, the same pairs, and no task that has to do all the work."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.language.parser import parse
from holdfast.model.errors import InputError
from holdfast.pipeline.match import compile as match_compile
from holdfast.pipeline.match import subscriptions_table
from holdfast.pipeline.match.subscriptions_table import Subscriptions
from tests.pipeline.judges import duckdb_pairs, pairs

pytestmark = pytest.mark.spark

SYMBOLS = [f"S{number:02}" for number in range(60)]


def skewed_events(count: int) -> pa.Table:
    """A third of all events is about one symbol."""
    dice = np.random.default_rng(7)
    hot = dice.random(count) < 1 / 3
    others = dice.integers(1, len(SYMBOLS), count)
    symbols = [SYMBOLS[0] if is_hot else SYMBOLS[other] for is_hot, other in zip(hot, others, strict=True)]
    return pa.table({"id": np.arange(count), "symbol": symbols, "price": np.round(dice.uniform(1, 100, count), 2)})


def skewed_conditions(count: int) -> dict[str, str]:
    """Half of the subscriptions want the hot symbol; some have nothing to be sorted by, some lead to two shards."""
    texts = {}
    for number in range(count):
        symbol = SYMBOLS[0] if number % 2 else SYMBOLS[number % len(SYMBOLS)]
        texts[f"q{number}"] = f"symbol = '{symbol}' AND price > {number % 97}"
    texts["rest"] = "price < 2"
    texts["both"] = "symbol = 'S03' AND price < 50 OR symbol = 'S04' OR symbol = 'S03' AND price < 60"
    return texts


EVENTS = skewed_events(2_000)
CONDITIONS = skewed_conditions(240)
BUDGET = 12_000  # bytes: the whole takes about six times as much


@pytest.fixture(scope="module")
def wishes(spark: Any) -> Any:
    return spark.createDataFrame(list(CONDITIONS.items()), "id string, condition string")


def test_shards_within_the_budget_find_the_same_pairs(spark: Any, wishes: Any) -> None:
    from holdfast.spark import match

    compiled = match_compile.compile_subscriptions(spark, wishes, BUDGET)
    assert len(compiled.files) > 4
    assert max(file.bytes for file in compiled.files) <= BUDGET
    assert compiled.subscriptions == len(CONDITIONS)
    numbers = [number for number, _ in compiled.finder.files]  # type: ignore[attr-defined]
    assert len(numbers) > len(set(numbers)), "the hot symbol's subscriptions do not fit into one shard"
    result = match(spark.createDataFrame(EVENTS), wishes, key=["id"], index_bytes_max=BUDGET)
    assert pairs(result) == duckdb_pairs(EVENTS, CONDITIONS)


def test_a_large_table_of_subscriptions_is_sorted_by_the_tasks(
    spark: Any, wishes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match_compile, "_SAMPLE_ROWS", 50)
    whole = match_compile.compile_subscriptions(spark, wishes)
    assert (len(whole.files), whole.subscriptions) == (1, len(CONDITIONS))
    in_shards = match_compile.compile_subscriptions(spark, wishes, BUDGET)
    assert in_shards.subscriptions == len(CONDITIONS)
    assert in_shards.uses == whole.uses


@pytest.mark.parametrize("budget", [BUDGET, 1 << 30], ids=["sharded", "whole"])
def test_the_driver_compiles_nothing_and_parses_a_sample_at_most(
    spark: Any, wishes: Any, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed_here: list[str] = []

    def counted(condition: str) -> Any:
        parsed_here.append(condition)
        return parse(condition)

    def refused(self: Subscriptions) -> Any:
        raise AssertionError("the driver compiles")

    monkeypatch.setattr(match_compile, "_SAMPLE_ROWS", 7)
    monkeypatch.setattr(subscriptions_table, "parse", counted)
    monkeypatch.setattr(Subscriptions, "matcher", refused)
    compiled = match_compile.compile_subscriptions(spark, wishes, budget)
    assert compiled.subscriptions == len(CONDITIONS)
    assert len(parsed_here) == (7 if budget == BUDGET else 0)


def test_invalid_subscriptions_are_told_by_id_from_shards_too(spark: Any, wishes: Any) -> None:
    bad = [("q1", "price > 3"), ("broken", "price >"), (None, "price > 1")]
    mixed = wishes.unionAll(spark.createDataFrame(bad, wishes.schema))
    with pytest.raises(InputError, match=r"3 subscriptions are not valid") as told:
        match_compile.compile_subscriptions(spark, mixed, BUDGET)
    for words in ("q1: there is another", "broken: line 1", "None: expected an id"):
        assert words in str(told.value)
    kept = match_compile.compile_subscriptions(spark, mixed, BUDGET, skip_invalid=True)
    assert kept.subscriptions == len(CONDITIONS)
    assert sorted(str(each.id) for each in kept.rejected) == ["None", "broken", "q1"]


@pytest.mark.parametrize("budget", [BUDGET, 1 << 30], ids=["sharded", "whole"])
def test_a_hot_symbol_does_not_make_a_straggler(spark: Any, wishes: Any, tmp_path: Path, budget: int) -> None:
    from holdfast.pipeline.match.frames import prepare
    from holdfast.pipeline.match.job import write_files

    events = skewed_events(120_000).sort_by("symbol")  # all of the hot symbol's events together, the worst order
    pq.write_table(events, tmp_path / "events.parquet", row_group_size=10_000)
    plan = prepare(tmp_path / "events.parquet", wishes, key=["id"], index_bytes_max=budget)
    (tmp_path / "out").mkdir()
    written = write_files(plan, tmp_path / "out")
    assert len(written) == 2
    assert {each.events for each in written} == {60_000}, "each task has its even share, whatever the symbols are"
    assert sum(each.pairs for each in written) == len(pq.read_table(tmp_path / "out"))
    print("task seconds:", [round(each.seconds, 2) for each in written])
