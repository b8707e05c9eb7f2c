"""`holdfast.spark.match`: DataFrames and paths in, a DataFrame of pairs out."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.model.errors import InputError
from tests.language.engines import sql_conditions, table_of, typed_rows
from tests.pipeline.judges import duckdb_pairs, pairs

pytestmark = pytest.mark.spark

EVENTS = table_of(typed_rows(300))
CONDITIONS = {f"q{number}": text for number, text in enumerate(sql_conditions(80, "match"))}


@pytest.fixture(scope="module")
def wishes(spark: Any) -> Any:
    return spark.createDataFrame(list(CONDITIONS.items()), "id string, condition string")


def wanting(spark: Any, *conditions: str) -> Any:
    rows = [(f"w{number}", text) for number, text in enumerate(conditions)]
    return spark.createDataFrame(rows, "id string, condition string")


def test_a_dataframe_has_the_pairs_that_duckdb_finds(spark: Any, wishes: Any) -> None:
    from holdfast.spark import match

    result = match(spark.createDataFrame(EVENTS), wishes, key=["id"], keep=["symbol", "sent"])
    assert result.columns == ["id", "subscription", "symbol", "sent"]
    found = result.toArrow()
    assert pairs(found) == duckdb_pairs(EVENTS, CONDITIONS)
    symbols = dict(zip(EVENTS["id"].to_pylist(), EVENTS["symbol"].to_pylist(), strict=True))
    assert all(row["symbol"] == symbols[row["id"]] for row in found.to_pylist())
    assert found["sent"].null_count < found.num_rows


def test_parquet_files_have_the_same_pairs_and_number_their_rows_in_order(tmp_path: Path, wishes: Any) -> None:
    from holdfast.spark import match

    pq.write_table(EVENTS.slice(0, 100), tmp_path / "a.parquet", row_group_size=30)
    pq.write_table(EVENTS.slice(100), tmp_path / "b.parquet", row_group_size=70, use_deprecated_int96_timestamps=True)
    (tmp_path / "_SUCCESS").touch()
    result = match(tmp_path, wishes)
    assert result.columns == ["row", "subscription"]
    assert pairs(result, "row") == duckdb_pairs(EVENTS, CONDITIONS)  # ids count rows, too


def test_counts_say_how_many_events_each_subscription_wants(spark: Any, wishes: Any) -> None:
    from holdfast.spark import match_counts

    ids = [id_ for _, id_ in duckdb_pairs(EVENTS, CONDITIONS)]
    counts = match_counts(spark.createDataFrame(EVENTS), wishes).collect()
    assert {row.subscription: row.events for row in counts} == {id_: ids.count(id_) for id_ in set(ids)}


NESTED = "id int, home struct<team: string, at: struct<city: string>>, tags array<string>, `odd.name` int"
NESTED_ROWS = [
    (1, {"team": "Yankees", "at": {"city": "New York"}}, ["a"], 7),
    (2, {"team": "Mets", "at": None}, None, 8),
    (3, None, [], None),
]


@pytest.mark.parametrize("as_files", [False, True], ids=["DataFrame", "Parquet"])
def test_structs_flatten_to_dotted_names(spark: Any, tmp_path: Path, as_files: bool) -> None:
    from holdfast.spark import match

    events: Any = spark.createDataFrame(NESTED_ROWS, NESTED)
    if as_files:
        events.coalesce(1).write.parquet(str(tmp_path / "events"))
        events = tmp_path / "events"
    wishes = wanting(
        spark, "home.at.city = 'New York' AND \"odd.name\" = 7", "home.team LIKE 'M%'", "home.team IS NULL"
    )
    result = match(events, wishes, key=["id"], keep=["home.team", "tags"])
    assert result.columns == ["id", "subscription", "home.team", "tags"]
    found = sorted(tuple(row) for row in result.collect())
    assert found == [(1, "w0", "Yankees", ["a"]), (2, "w1", "Mets", None), (3, "w2", None, [])]


def test_every_column_can_be_kept(spark: Any) -> None:
    from holdfast.spark import match

    result = match(spark.createDataFrame(NESTED_ROWS, NESTED), wanting(spark, "id = 1"), key=["id"], keep=["*"])
    assert result.columns == ["id", "subscription", "home.team", "home.at.city", "tags", "odd.name"]


LISTS = "id int, tags array<string>, sizes array<double>, limit double"
LISTS_ROWS = [
    (1, ["a", "b"], [1.0, 9.5], 5.0),
    (2, [], [], 5.0),
    (3, None, None, 5.0),
    (4, ["a", None], [2.0, None], None),
    (5, ["c"], [9.5], 9.5),
]
SPARK_SAYS = {  # what Spark SQL calls the same
    "'a' = ANY(tags)": "exists(tags, x -> 'a' = x)",
    "NOT CONTAINS(tags, 'a')": "NOT exists(tags, x -> x = 'a')",
    "limit > ALL(sizes)": "forall(sizes, x -> limit > x)",
    "NOT limit <= ANY(sizes)": "NOT exists(sizes, x -> limit <= x)",
    "CARDINALITY(tags) = 2 AND 'c' <> ALL(tags)": "cardinality(tags) = 2 AND forall(tags, x -> 'c' <> x)",
    "'b' = ANY(tags) OR CARDINALITY(sizes) = 0": "exists(tags, x -> 'b' = x) OR cardinality(sizes) = 0",
}


@pytest.mark.parametrize("as_files", [False, True], ids=["DataFrame", "Parquet"])
def test_array_columns_have_the_pairs_that_spark_sql_selects(spark: Any, tmp_path: Path, as_files: bool) -> None:
    from holdfast.spark import match

    rows = spark.createDataFrame(LISTS_ROWS, LISTS)
    answers = rows.selectExpr("id", *[f"{says} AS w{at}" for at, says in enumerate(SPARK_SAYS.values())]).collect()
    expected = [(row.id, f"w{at}") for row in answers for at in range(len(SPARK_SAYS)) if row[f"w{at}"]]
    events: Any = rows
    if as_files:
        rows.coalesce(1).write.parquet(str(tmp_path / "events"))
        events = tmp_path / "events"
    assert pairs(match(events, wanting(spark, *SPARK_SAYS), key=["id"])) == sorted(expected)


def test_integer_ids_stay_integers_and_names_differ_by_case(spark: Any) -> None:
    from holdfast.spark import match

    wishes = spark.createDataFrame([(7, "Price > 1"), (8, "price > 1")], "id int, condition string")
    with_cases = spark.createDataFrame([(1, 2.0)], "n int, Price double")
    result = match(with_cases, wishes, key=["n"])
    assert dict(result.dtypes)["subscription"] == "bigint"
    assert pairs(result, "n") == [(1, 7)]


def test_without_a_mentioned_column_only_conditions_without_any_match(spark: Any) -> None:
    from holdfast.spark import match

    wishes = wanting(spark, "no_such = 1", "no_such IS NULL", "TRUE")
    assert pairs(match(spark.range(2), wishes, key=["id"])) == [(0, "w1"), (0, "w2"), (1, "w1"), (1, "w2")]


def test_timestamps_with_and_without_a_zone_are_taken_as_utc(spark: Any) -> None:
    from holdfast.spark import match

    rows = spark.sql(
        "SELECT 1 AS id, TIMESTAMP '2026-01-02 03:04:05' AS zoned, TIMESTAMP_NTZ '2026-01-02 03:04:05' AS plain, "
        "DATE '2026-01-02' AS day"
    )
    moment = "TIMESTAMP '2026-01-02 03:04:05'"
    wishes = wanting(spark, f"zoned = {moment} AND plain = {moment}", "day < TIMESTAMP '2026-01-02 00:00:01'")
    assert pairs(match(rows, wishes, key=["id"])) == [(1, "w0"), (1, "w1")]


def test_all_invalid_conditions_are_told_by_id(spark: Any) -> None:
    from holdfast.spark import match

    rows = [
        ("good", "id = 1"),
        ("bad", "id ="),
        ("worse", "id LIKE"),
        ("good", "id = 2"),
        (None, "id = 3"),
        ("none", None),
    ]
    wishes = spark.createDataFrame(rows, "id string, condition string")
    with pytest.raises(InputError) as told:
        match(spark.range(3), wishes)
    message = str(told.value)
    assert message.startswith("5 subscriptions are not valid")
    for words in (
        "bad: line 1, column 5",
        "worse: line 1",
        "good: there is another",
        "None: expected an id",
        "none: exp",
    ):
        assert words in message
    assert pairs(match(spark.range(3), wishes, key=["id"], skip_invalid=True)) == [(1, "good")]


@pytest.mark.parametrize("as_files", [False, True], ids=["DataFrame", "Parquet"])
def test_columns_that_cannot_be_matched_are_named_with_their_types(spark: Any, tmp_path: Path, as_files: bool) -> None:
    from holdfast.spark import match

    events: Any = spark.sql("SELECT CAST(1 AS DECIMAL(9, 2)) AS price, ARRAY(1) AS tags, MAP('a', 1) AS more, 1 AS n")
    if as_files:
        events.write.parquet(str(tmp_path / "events"))
        events = tmp_path / "events"
    with pytest.raises(InputError, match=r"price is decimal.* \(cast it to double\); more is map"):
        match(events, wanting(spark, "price > 1 OR more IS NULL"))
    kept = match(events, wanting(spark, "n = 1"), key=["n"], keep=["price", "tags"])
    assert [tuple(row) for row in kept.collect()] == [(1, "w0", 1, [1])]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"key": ["nope"]}, "there is no column nope; there are id"),
        ({"key": ["id"], "keep": ["id"]}, "two columns called id"),
    ],
)
def test_a_result_that_cannot_be_is_refused(spark: Any, arguments: Any, words: str) -> None:
    from holdfast.spark import match

    with pytest.raises(InputError, match=words):
        match(spark.range(3), wanting(spark, "id = 1"), **arguments)


def test_a_column_given_twice_is_refused(spark: Any) -> None:
    from holdfast.spark import match

    twice = spark.sql("SELECT 1 AS `a.b`, STRUCT(2 AS b) AS a")
    with pytest.raises(InputError, match=r"a\.b is given twice"):
        match(twice, wanting(spark, '"a.b" = 1'))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("id string, text string", "missing: condition"),
        ("id double, condition string", "ids that are strings or integers, found double"),
        ("id string, condition int", "conditions that are strings, found int"),
    ],
)
def test_a_table_that_holds_no_subscriptions_is_refused(spark: Any, columns: str, words: str) -> None:
    from holdfast.spark import match

    with pytest.raises(InputError, match=words):
        match(spark.range(3), spark.createDataFrame([], columns))


def test_files_may_differ_in_type_where_that_can_be_told_apart(spark: Any, tmp_path: Path) -> None:
    from holdfast.spark import match

    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "x": pa.array([5])}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": pa.array([2], pa.int64()), "x": pa.array(["5"])}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"id": pa.array([3], pa.int64())}), tmp_path / "c.parquet")
    wishes = wanting(spark, "x = 5", "x = '5'", "x IS NULL")
    assert pairs(match(tmp_path, wishes, key=["id"])) == [(1, "w0"), (2, "w1"), (3, "w2")]
    with pytest.raises(InputError, match=r"b\.parquet: column x is string, in a\.parquet it is int64"):
        match(tmp_path, wishes, keep=["x"])


@pytest.mark.parametrize("rows", [3, 0])
def test_events_without_any_column_of_interest_still_count(spark: Any, tmp_path: Path, rows: int) -> None:
    from holdfast.spark import match

    pq.write_table(pa.table({"x": pa.array([1] * rows, pa.int64())}), tmp_path / "events.parquet")
    result = match(tmp_path / "events.parquet", wanting(spark, "TRUE", "y IS NULL", "y = 1"))
    assert pairs(result, "row") == sorted([(row, id_) for row in range(rows) for id_ in ("w0", "w1")], key=str)


def test_nobody_subscribes_to_anything(spark: Any) -> None:
    from holdfast.spark import match, match_counts

    assert match(spark.range(3), wanting(spark)).count() == 0
    assert match_counts(spark.range(3), wanting(spark)).count() == 0
