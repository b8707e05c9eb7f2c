"""The tasks of the matching job, without Spark: pairs, slices, portions, shards and routes."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Matcher, parse
from holdfast.pipeline.match import tasks as match_tasks
from holdfast.pipeline.match.counting import CountSink
from holdfast.pipeline.match.index import IndexFile
from holdfast.pipeline.match.parquet import RowGroup, RowGroupSource, read_footers, shared_out, task_rows
from holdfast.pipeline.match.routing import REST, routing_attributes, shard_of, shards_of
from holdfast.pipeline.match.shards import Shard, ShardedIndex
from holdfast.pipeline.match.tasks import BatchSource, Block, RowSink, Task, WholeIndex, in_portions
from tests.language.engines import sql_conditions, table_of, typed_rows
from tests.pipeline.judges import duckdb_pairs, pairs

EVENTS = table_of(typed_rows(400)).combine_chunks().to_batches()[0]
CONDITIONS = dict(enumerate(sql_conditions(120, "tasks")))
NAMES = tuple(EVENTS.schema.names)
SOURCE = BatchSource(tuple((name, at) for at, name in enumerate(NAMES)), (("id", 0),))


def index(conditions: dict[int, str], folder: Path, name: str = "all.index") -> IndexFile:
    matcher = Matcher()
    for id_, condition in conditions.items():
        matcher.add(id_, condition)
    matcher.save(folder / name)
    return IndexFile(name, str(folder), (folder / name).stat().st_size)


def rows(task: Task, batches: list[pa.RecordBatch] | None = None) -> pa.Table:
    return pa.Table.from_batches(task([EVENTS] if batches is None else batches))


@pytest.fixture
def whole(tmp_path: Path) -> WholeIndex:
    return WholeIndex(index(CONDITIONS, tmp_path))


def test_a_task_finds_the_pairs_that_duckdb_finds(whole: WholeIndex) -> None:
    expected = duckdb_pairs(pa.Table.from_batches([EVENTS]), CONDITIONS)
    assert len(expected) > 1_000
    assert pairs(rows(Task(SOURCE, whole, RowSink(1, pa.int64())))) == expected


def test_the_pairs_are_the_same_when_only_few_fit_into_memory(
    whole: WholeIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Task(SOURCE, whole, RowSink(1, pa.int64()))
    expected = pairs(rows(task))
    monkeypatch.setattr(match_tasks, "PAIRS_MAX", 50)
    monkeypatch.setattr(match_tasks, "CARRIED_BYTES_MAX", 100)
    batches = list(task([EVENTS]))
    assert max(batch.num_rows for batch in batches) <= 100 // 8
    assert pairs(pa.Table.from_batches(batches)) == expected


def test_slices_are_cut_so_that_the_pairs_of_one_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = WholeIndex(index(dict.fromkeys(range(100), "id >= 0"), tmp_path))
    monkeypatch.setattr(match_tasks, "PAIRS_MAX", 1_000)
    blocks = [Block(EVENTS, EVENTS.select(["id"]))]
    sizes = [len(found.one_by_one().rows) for found in everything.found(iter(blocks))]
    assert sum(sizes) == 100 * EVENTS.num_rows
    assert max(sizes) <= 1_000


def test_a_wide_event_makes_portions_short_and_others_do_not_suffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match_tasks, "CARRIED_BYTES_MAX", 5_000)
    carried = pa.record_batch({"text": ["x"] * 10 + ["x" * 1_000] * 2})
    numbers = pa.array(np.repeat(np.arange(12), 10).astype(np.int32))
    ids = pa.array(["a"] * 120).dictionary_encode()
    portions = [part.to_pylist() for part, _ in in_portions(match_tasks.Found(carried, numbers, ids))]
    assert [number for part in portions for number in part] == numbers.to_pylist()
    assert len(portions[0]) > 100
    assert max(map(len, portions[1:])) <= 5


def test_a_task_reads_the_footer_of_a_file_once_however_many_row_groups_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = pa.table({"n": range(100)})
    for name in ("a", "b"):
        pq.write_table(numbers, tmp_path / f"{name}.parquet", row_group_size=10)
    table = read_footers([tmp_path / "a.parquet", tmp_path / "b.parquet"])
    assert len(table.groups) == 20
    opened: list[str] = []
    about = pq.read_metadata
    monkeypatch.setattr(pq, "read_metadata", lambda path: opened.append(Path(path).name) or about(path))
    blocks = RowGroupSource(("n",), (), numbered=True)(task_rows([table.groups]).to_batches())
    events = [line["row"] for block in blocks for line in block.carried.to_pylist()]
    assert events == [*range(200)]
    assert opened == ["a.parquet", "b.parquet"]


def test_counts_are_the_number_of_pairs_of_each_subscription(whole: WholeIndex) -> None:
    counted = rows(Task(SOURCE, whole, CountSink(pa.int64())))
    found = dict(zip(counted["subscription"].to_pylist(), counted["events"].to_pylist(), strict=True))
    expected = [id_ for _, id_ in duckdb_pairs(pa.Table.from_batches([EVENTS]), CONDITIONS)]
    assert found == {id_: expected.count(id_) for id_ in set(expected)}


def sharded(folder: Path, conditions: dict[int, str], shards: int) -> ShardedIndex:
    parsed = {id_: parse(text) for id_, text in conditions.items()}
    attributes = routing_attributes(parsed.values(), shards)
    files = []
    for number in (REST, *range(shards)):
        mine = {id_: conditions[id_] for id_, each in parsed.items() if shard_of(each, attributes, shards) == number}
        if mine:
            files.append(Shard(number, index(mine, folder, f"{number}.index")))
    return ShardedIndex(attributes, shards, tuple(files))


@pytest.mark.parametrize("shards", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_shards_find_the_same_pairs(tmp_path: Path, shards: int) -> None:
    keyed = {1_000 + number: f"id = {number} AND (price > 0 OR {CONDITIONS[number]})" for number in range(100)}
    several = sharded(tmp_path, CONDITIONS | keyed, shards)
    assert several.attributes == ("id",)
    assert len(several.files) == shards + 1
    parts = [EVENTS.slice(first, 100) for first in range(0, 400, 100)]
    found = pairs(rows(Task(SOURCE, several, RowSink(1, pa.int64())), parts))
    assert found == duckdb_pairs(pa.Table.from_batches([EVENTS]), CONDITIONS | keyed)


def test_a_shard_is_shown_only_the_events_that_it_can_want(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    accounts = pa.record_batch({"account": range(1_000)})
    several = sharded(tmp_path, {number: f"account = {number}" for number in range(100)}, shards=10)
    assert several.attributes == ("account",)
    assert REST not in [number for number, _ in several.files]
    shown: list[int] = []

    def counting(self: object, block: Block) -> Iterator[match_tasks.Found]:
        shown.append(block.events.num_rows)
        return iter(())

    monkeypatch.setattr(match_tasks.Slicing, "found", counting)
    list(several.found(iter([Block(accounts, accounts)])))
    assert len(shown) == 10
    assert sum(shown) == 1_000, "each event goes to the one shard that its account leads to"


integers = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(integers, min_size=1), st.integers(1, 50))
def test_an_integer_and_an_equal_one_in_a_condition_lead_to_the_same_shard(values: list[int], shards: int) -> None:
    expected = [shard_of(parse(f"n = {value}"), ["n"], shards) for value in values]
    assert shards_of("n", pa.array(values, pa.int64()), shards).tolist() == expected  # type: ignore[union-attr]


@given(st.lists(st.integers(-(2**53), 2**53), min_size=1), st.integers(1, 50))
def test_so_does_an_equal_double(values: list[int], shards: int) -> None:
    expected = [shard_of(parse(f"n = {value}"), ["n"], shards) for value in values]
    doubles = pa.array([float(value) for value in values])
    assert shards_of("n", doubles, shards).tolist() == expected  # type: ignore[union-attr]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1), st.integers(1, 50))
def test_and_an_equal_text_plain_or_encoded(values: list[str], shards: int) -> None:
    spelt = ["'" + value.replace("'", "''") + "'" for value in values]
    expected = [shard_of(parse(f"s = {value}"), ["s"], shards) for value in spelt]
    column = pa.array(values)
    assert shards_of("s", column, shards).tolist() == expected  # type: ignore[union-attr]
    assert shards_of("s", column.dictionary_encode(), shards).tolist() == expected  # type: ignore[union-attr]


def test_values_that_no_routed_condition_can_equal_lead_to_the_rest_only() -> None:
    odd = pa.array([None, 0.5, float("nan"), float("inf"), 1e300, -(2.0**63) * 2])
    assert shards_of("n", odd, 7).tolist() == [REST] * 6  # type: ignore[union-attr]
    assert shards_of("n", pa.array([2**63, None], pa.uint64()), 7).tolist() == [REST] * 2  # type: ignore[union-attr]
    assert shards_of("s", pa.array([None, None], pa.string()), 7).tolist() == [REST] * 2  # type: ignore[union-attr]
    assert shards_of("b", pa.array([True]), 7) is None


def test_a_subscription_whose_filters_lead_apart_belongs_to_the_rest() -> None:
    assert shard_of(parse("n = 1 AND x > 3"), ["n"], 100) != REST
    assert shard_of(parse("n = 1 OR n = 2"), ["n"], 100) == REST
    assert shard_of(parse("n = 1 OR x > 3"), ["n"], 100) == REST
    assert shard_of(parse("n > 1"), ["n"], 100) == REST


def test_row_groups_are_dealt_out_evenly() -> None:
    dice = Random("row groups")
    groups = [RowGroup("f", number, 0, dice.randrange(10_000, 200_000)) for number in range(100)]
    tasks = shared_out(groups, cores=4)
    loads = [sum(group.rows for group in task) for task in tasks]
    dealt: Counter[int] = Counter()
    for group in (group for task in tasks for group in task):
        dealt[group.number] += group.rows
    assert dealt == {group.number: group.rows for group in groups}
    assert len(tasks) >= 4
    assert max(loads) - min(loads) <= 2 * 16_384


@pytest.mark.parametrize(("rows_each", "groups", "tasks"), [(10, 3, 1), (60_000, 1, 1), (60_000, 2, 2), (0, 0, 1)])
def test_a_task_is_worth_starting(rows_each: int, groups: int, tasks: int) -> None:
    assert len(shared_out([RowGroup("f", number, 0, rows_each) for number in range(groups)], cores=8)) == tasks


def test_a_file_of_one_row_group_keeps_every_core_busy(tmp_path: Path) -> None:
    rows = 300_000
    pq.write_table(pa.table({"n": range(rows)}), tmp_path / "one.parquet", row_group_size=rows)
    tasks = shared_out(read_footers([tmp_path / "one.parquet"]).groups, cores=3)
    source = RowGroupSource(("n",), (), numbered=True)
    seen = []
    for task in task_rows(tasks).to_batches(max_chunksize=1):
        blocks = list(source([task]))
        assert sum(block.events.num_rows for block in blocks) == rows // 3
        for block in blocks:
            assert block.events["n"].equals(block.carried["row"])
            seen += block.carried["row"].to_pylist()
    assert sorted(seen) == list(range(rows))
