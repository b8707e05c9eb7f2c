"""Spark SQL evaluates the same condition texts on the same rows and finds the same ones."""

from random import Random
from typing import Any

import pytest

from holdfast import parse
from tests.language.engines import (
    DIFFERENCES,
    Difference,
    for_spark,
    ids_that_match,
    sql_conditions,
    table_of,
    typed_rows,
)
from tests.language.expressions import expression_test
from tests.language.generators import SQL_ATTRIBUTES

pytestmark = pytest.mark.spark

ROWS = typed_rows(100)
CONDITIONS = 60  # in one job, each its own column: 6,000 pairs
SPARK_TYPES = {"VARCHAR": "STRING"}


@pytest.fixture(scope="module")
def events(spark: Any) -> Any:
    return spark.createDataFrame(table_of(ROWS)).cache()


@pytest.mark.parametrize("printed", [False, True], ids=["as written", "canonical"])
def test_many_conditions_select_the_rows_that_spark_selects(events: Any, printed: bool) -> None:
    texts = sql_conditions(CONDITIONS, "Spark")
    if printed:
        texts = [str(parse(text)) for text in texts]
    verdicts = events.selectExpr(
        "id", *(f"({for_spark(text)}) AS c{number}" for number, text in enumerate(texts))
    ).collect()
    for number, text in enumerate(texts):
        selected = sorted(each["id"] for each in verdicts if each[f"c{number}"])
        assert ids_that_match(text, ROWS) == selected, text


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_many_expressions_select_the_rows_that_spark_selects(events: Any, seed: int) -> None:
    """Ten times 100 expressions and 100 rows: 100,000 pairs."""
    dice = Random(f"expressions for Spark {seed}")
    texts = [expression_test(dice, SQL_ATTRIBUTES, sql=True) for _ in range(100)]
    verdicts = events.selectExpr(
        "id", *(f"({for_spark(text)}) AS c{number}" for number, text in enumerate(texts))
    ).collect()
    for number, text in enumerate(texts):
        selected = sorted(each["id"] for each in verdicts if each[f"c{number}"])
        assert ids_that_match(text, ROWS) == selected, text


@pytest.mark.parametrize("case", DIFFERENCES, ids=lambda case: f"{case.text} on {case.value!r}")
def test_the_rule_book_is_right_about_spark(spark: Any, case: Difference) -> None:
    from pyspark.errors import PySparkException

    one = spark.createDataFrame([(case.value,)], f"x {SPARK_TYPES.get(case.kind, case.kind)}")
    if isinstance(case.spark, str):
        with pytest.raises(PySparkException, match=case.spark):
            one.where(case.text).collect()
    else:
        assert bool(one.where(case.text).collect()) is case.spark
