"""DuckDB evaluates the same condition texts on the same rows and finds the same ones."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import ConditionError, parse
from tests.language import engines
from tests.language.engines import DIFFERENCES, Difference, ids_that_match
from tests.language.expressions import expression_test
from tests.language.generators import SQL_ATTRIBUTES

ROWS = engines.typed_rows(200)
CONDITIONS = 500  # times the rows: 100,000 pairs of a condition and a row


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    import duckdb  # late: after Hypothesis it would report leaks of its own when the run ends

    with duckdb.connect() as connection:
        connection.register("arrived", engines.table_of(ROWS))
        connection.execute("CREATE TABLE events AS SELECT * FROM arrived")
        yield connection


def ids_in_duckdb(engine: Any, text: str) -> list[object]:
    found = engine.execute(f"SELECT id FROM events WHERE {engines.for_duckdb(text)} ORDER BY id").fetchall()
    return [number for (number,) in found]


def test_many_conditions_select_the_rows_that_duckdb_selects(engine: Any) -> None:
    for text in engines.sql_conditions(CONDITIONS, "DuckDB"):
        assert ids_that_match(text, ROWS) == ids_in_duckdb(engine, text), text


def test_canonical_text_selects_the_rows_that_duckdb_selects(engine: Any) -> None:
    for text in engines.sql_conditions(CONDITIONS, "canonical"):
        printed = str(parse(text))
        assert ids_that_match(text, ROWS) == ids_in_duckdb(engine, printed), printed


@pytest.mark.slow
def test_many_expressions_select_the_rows_that_duckdb_selects(engine: Any) -> None:
    """Drawn by Hypothesis, so that a difference shrinks; 600 times 200 rows are 120,000 pairs."""

    @settings(max_examples=600, deadline=None)
    @given(st.randoms(use_true_random=False).map(lambda dice: expression_test(dice, SQL_ATTRIBUTES, sql=True)))
    def agree(text: str) -> None:
        assert ids_that_match(text, ROWS) == ids_in_duckdb(engine, text), text
        printed = str(parse(text))
        assert ids_that_match(text, ROWS) == ids_in_duckdb(engine, printed), printed

    agree()


@pytest.mark.parametrize("case", DIFFERENCES, ids=lambda case: f"{case.text} on {case.value!r}")
def test_the_rule_book_is_right_about_us(case: Difference) -> None:
    if isinstance(case.ours, str):
        with pytest.raises(ConditionError, match=case.ours):
            parse(case.text)
    else:
        assert parse(case.text).matches({"x": case.value}) is case.ours


@pytest.mark.parametrize("case", DIFFERENCES, ids=lambda case: f"{case.text} on {case.value!r}")
def test_the_rule_book_is_right_about_duckdb(case: Difference) -> None:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t (x {case.kind})")
        connection.execute("INSERT INTO t VALUES (?)", [case.value])
        if isinstance(case.duckdb, str):
            with pytest.raises(duckdb.Error, match=case.duckdb):
                connection.execute(f"SELECT x FROM t WHERE {case.text}").fetchall()
        else:
            found = connection.execute(f"SELECT x FROM t WHERE {case.text}").fetchall()
            assert bool(found) is case.duckdb
