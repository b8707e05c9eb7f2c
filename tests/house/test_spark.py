"""The pinned Spark, pandas, Arrow and Java work together."""

from typing import Any

import pyarrow as pa


def test_spark_runs_an_arrow_function(spark: Any) -> None:
    def double(batches: Any) -> Any:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"id": [2 * value for value in batch["id"].to_pylist()]})

    rows = spark.range(4).mapInArrow(double, "id long").collect()
    assert sorted(row.id for row in rows) == [0, 2, 4, 6]


def test_spark_hands_over_pandas(spark: Any) -> None:
    assert spark.sql("SELECT 'IBM' LIKE 'I%' AS hit").toPandas()["hit"].tolist() == [True]
