"""Few rows go on in the embedded engine on the driver; tasks have the others, and get the few when they need them."""

import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.pipeline import spark_engine, warm_workers
from holdfast.pipeline.embedded_engine import EmbeddedEngine
from holdfast.pipeline.spark_engine import SparkEngine

pytestmark = pytest.mark.spark


@pytest.fixture
def engine(spark: Any) -> SparkEngine:
    return SparkEngine(spark.newSession(), EmbeddedEngine(), few_rows=10)


def test_few_rows_go_on_on_the_driver_and_many_stay_on_spark(engine: SparkEngine) -> None:
    numbers = engine.named(engine.spark.range(100))
    few = engine.keep(f"SELECT id FROM {numbers} WHERE id < 10")
    many = engine.keep(f"SELECT id FROM {numbers}")
    assert len(few.rows()) == 10 and len(many.rows()) == 100
    assert not engine.spark.catalog.tableExists(few.name)
    assert engine.spark.catalog.tableExists(many.name)


@pytest.mark.parametrize("sent", [20_000, 1])
def test_a_query_over_both_gets_the_few_rows_sent_or_asks_for_them_again(
    engine: SparkEngine, sent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_engine, "_SENT_ROWS", sent)
    numbers = engine.named(engine.spark.range(100))
    few = engine.keep(f"SELECT id FROM {numbers} WHERE id < 10")
    doubled = engine.sql(f"SELECT id * 2 AS id FROM {few}")
    joined = engine.sql(f"SELECT id FROM {numbers} SEMI JOIN {doubled} USING (id)")
    assert doubled.columns == ("id",)
    assert sorted(joined.rows()) == [(each,) for each in range(0, 20, 2)]


def test_workers_load_once_for_an_application_what_they_are_told(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_workers, "_warmed", set())

    def load() -> None:
        (tmp_path / str(os.getpid())).touch()

    thread = warm_workers.warm_workers(spark, load)
    assert thread is not None
    thread.join()
    loaded = {int(path.name) for path in tmp_path.iterdir()}
    assert loaded and os.getpid() not in loaded
    assert warm_workers.warm_workers(spark, load) is None
