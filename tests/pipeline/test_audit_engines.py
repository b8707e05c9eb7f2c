"""One plan, two engines: every row that Spark finds, the embedded engine finds, and the other way round."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from bench.audit_trace import write_trace
from holdfast.cli import main
from holdfast.model.errors import InputError
from holdfast.pipeline.audit import engines, facts
from holdfast.pipeline.audit.folder import write_tables
from holdfast.pipeline.audit.job import Audit, audited
from holdfast.pipeline.audit.slices import shown
from holdfast.pipeline.audit.trace_footers import read_footers
from holdfast.pipeline.engine import Relation
from holdfast.pipeline.many_files import HERE_MAX
from holdfast.sim.swarm_scenarios import scenario
from tests.pipeline import audit_runs
from tests.pipeline.conftest import Audited, embedded_audit, spark_audit
from tests.sim.test_judges import DRAWN

SOME_ROWS = 200  # on the driver: facts are more, what is summed up is not


def rows(relation: Relation, runs: Iterable[str]) -> list[tuple[Any, ...]]:
    """In one order, with sums of floats as far as their order does not matter."""
    found = [row for row in relation.dicts() if row["run"] in runs]
    return sorted((tuple(map(_rounded, row.values())) for row in found), key=repr)


def _rounded(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return _rounded(vars(value))
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def agree(one: Audit, other: Audit, runs: Iterable[str]) -> None:
    for name in ("facts", "figures", "messages", "seconds"):
        ours, theirs = getattr(one, name), getattr(other, name)
        assert ours.columns == theirs.columns, name
        assert rows(ours, runs) == rows(theirs, runs), name
    told = [{run.label: run.as_json() for run in each.runs if run.label in runs} for each in (one, other)]
    assert _rounded(told[0]) == _rounded(told[1])
    charts = [{label: each for label, each in shown(audit).items() if label in runs} for audit in (one, other)]
    assert _rounded(charts[0]) == _rounded(charts[1])


@pytest.fixture(scope="module")
def both(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Audit, Audit]]:
    """One run that has something of everything, audited by Spark and by DuckDB; the slow tests have all traces."""
    folder = tmp_path_factory.mktemp("runs") / "churn"
    audit_runs.simulate(audit_runs.CHURN, folder)
    with spark_audit(spark, [folder], SOME_ROWS) as on_spark, embedded_audit([folder]) as embedded:
        yield on_spark, embedded


def test_spark_finds_the_rows_of_the_embedded_engine(both: tuple[Audit, Audit]) -> None:
    agree(*both, {"churn"})


def test_the_plan_on_spark_has_what_tasks_did_and_what_the_driver_did(both: tuple[Audit, Audit]) -> None:
    told = both[0].trace.engine.plan()
    assert "MapInArrow" in told and "PARTITION BY" in told


def test_files_are_the_same_and_of_the_same_types(both: tuple[Audit, Audit], tmp_path: Path) -> None:
    found = [written(audit, tmp_path / audit.trace.engine.name) for audit in both]
    assert len(found[0]) == 10
    for table in found[0]:
        assert found[0][table] == found[1][table], table


def written(audit: Audit, folder: Path) -> dict[str, Any]:
    """Columns and rows of every table, as DuckDB reads them."""
    folder.mkdir()
    write_tables(audit, shown(audit), folder)
    tables = {}
    for table in folder.iterdir():
        files = f"read_parquet('{table}/*.parquet')"
        columns = [each[:2] for each in duckdb.sql(f"DESCRIBE FROM {files}").fetchall()]
        rows = [tuple(map(_rounded, row)) for row in duckdb.sql(f"FROM {files}").fetchall()]
        tables[table.name] = columns, sorted(rows, key=repr)
    return tables


@pytest.mark.slow
def test_spark_finds_the_rows_of_the_embedded_engine_in_all_traces(spark: Any, audited_traces: Audited) -> None:
    with spark_audit(spark, audited_traces.folders.values(), few_rows=0) as found:
        agree(found, audited_traces.audit, {folder.name for folder in audited_traces.folders.values()})


@pytest.mark.slow
def test_a_pair_with_almost_all_rows_is_many_tasks_work(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By rows, not by seconds: the largest task's beside the middle one's."""
    from pyspark.sql.functions import spark_partition_id

    from holdfast.pipeline.audit import spark_trace

    monkeypatch.setattr(facts, "RANGE", 1 << 9)
    monkeypatch.setattr(facts, "WHOLE_MAX", 1 << 13)
    monkeypatch.setitem(spark_trace._COALESCED, "spark.sql.adaptive.advisoryPartitionSizeInBytes", "1m")
    monkeypatch.setitem(spark_trace._COALESCED, "spark.sql.adaptive.coalescePartitions.minPartitionSize", "128k")
    session = spark.newSession()
    folder = write_trace(tmp_path / "hot", 120_000, hot=True)
    engine = spark_trace.SparkTraceEngine(session, 5 * engines.EMBEDDED_ROWS_MAX, SOME_ROWS)
    with audited(engine, read_footers([folder])) as audit:
        pairs = {(row["subscriber"], row["source"]): row["owed"] for row in audit.figures.dicts() if row["source"]}
        assert pairs["hot", "hot"] > 0.85 * audit.runs[0].outcome.owed
        hot = engine.frame(audit.facts).where("source = 'hot'")
        sizes = hot.groupBy(spark_partition_id()).count().toPandas()["count"]
    assert len(sizes) > 4
    assert sizes.max() <= 1.5 * sizes.median()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_spark_finds_the_rows_of_the_embedded_engine_in_drawn_traces(
    spark: Any, first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred in all: with churn, crashes, moves, recovery, order, gossip and stores. Half of them in tasks alone;
    half with a few rows on the driver, and cut into ranges."""
    for seed in range(first, first + 20):
        kind = [None, *DRAWN][seed % (1 + len(DRAWN))]
        audit_runs.simulate(scenario(seed) if kind is None else DRAWN[kind](seed), tmp_path / f"{seed}")
    folders = sorted(tmp_path.iterdir())
    if first % 40:
        monkeypatch.setattr(facts, "RANGE", 16)
        monkeypatch.setattr(facts, "WHOLE_MAX", 32)
    few_rows = SOME_ROWS if first % 40 else 0
    with spark_audit(spark, folders, few_rows) as one, embedded_audit(folders) as other:
        agree(one, other, {folder.name for folder in folders})


def test_ranges_of_any_length_give_the_same_rows(audited_traces: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then almost everything that an event knows of its pair's other events is carried in from other ranges."""
    monkeypatch.setattr(facts, "RANGE", 4)
    monkeypatch.setattr(facts, "WHOLE_MAX", 8)
    with embedded_audit(audited_traces.folders[name] for name in ("churn", "orders")) as found:
        agree(found, audited_traces.audit, {"churn", "orders"})


# Which engine it takes ---------------------------------------------------------------------------------------------


def test_small_traces_are_audited_in_the_process_and_large_ones_or_clusters_get_spark(
    audited_traces: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_MASTER", raising=False)
    footers = read_footers([audited_traces.folders["churn"]])
    assert engines.engine_for(None, footers) == "embedded"
    assert engines.engine_for("spark", footers) == "spark"
    assert engines.engine_for(None, footers, is_spark_meant=True) == "spark"
    monkeypatch.setattr(engines, "EMBEDDED_ROWS_MAX", 10)
    assert engines.engine_for(None, footers) == "spark"
    assert engines.engine_for("embedded", footers) == "embedded"


@pytest.mark.usefixtures("spark")
def test_footers_of_many_files_are_read_in_tasks_where_spark_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    audit_runs.simulate(audit_runs.HONEST, tmp_path / "run")
    [whole] = (tmp_path / "run" / "deliveries").iterdir()
    rows = pq.ParquetFile(whole).read()
    whole.unlink()
    for at in range(HERE_MAX):
        first, end = (at * rows.num_rows // HERE_MAX, (at + 1) * rows.num_rows // HERE_MAX)
        pq.write_table(rows.slice(first, end - first), whole.with_name(f"part-{at:05}.parquet"))

    def told(*words: str) -> Any:
        with pytest.raises(SystemExit) as left:
            main(["audit", str(tmp_path / "run"), "--json", *words])
        found = capsys.readouterr()
        return json.loads(found.out) if left.value.code != 2 else found.err

    here = told("--engine", "embedded")
    monkeypatch.setattr(pq, "read_metadata", None)  # of the driver, not of its workers
    there = told("--engine", "spark")
    assert (there.pop("engine"), here.pop("engine")) == ("spark", "embedded")
    assert there == here
    whole.write_bytes(b"PAR1 and no more")
    assert "part-00000.parquet: cannot be read" in told("--engine", "spark")


def test_the_command_says_which_engine_it_took(audited_traces: Audited, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["audit", str(audited_traces.folders["honest"])])
    assert capsys.readouterr().out.endswith("\naudited by the embedded engine (DuckDB)\n")
    with pytest.raises(SystemExit):
        main(["audit", str(audited_traces.folders["honest"]), "--json"])
    assert json.loads(capsys.readouterr().out)["engine"] == "embedded"


def test_the_plan_is_told_when_asked_for(audited_traces: Audited, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["audit", str(audited_traces.folders["honest"]), "--explain"])
    told = capsys.readouterr().out
    assert "PARTITION BY" in told


def test_a_master_is_not_for_the_embedded_engine(audited_traces: Audited, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["audit", str(audited_traces.folders["honest"]), "--engine", "embedded", "--master", "local[2]"])
    assert left.value.code == 2
    assert "--master, --conf and --packages are Spark's" in capsys.readouterr().err


def test_what_the_embedded_engine_cannot_read_is_told_in_one_line(tmp_path: Path) -> None:
    audit_runs.simulate(audit_runs.HONEST, tmp_path / "run")
    part = tmp_path / "run" / "deliveries" / "part-00000.parquet"
    content = part.read_bytes()
    part.write_bytes(content[:4] + bytes(300) + content[304:])
    with pytest.raises(InputError), embedded_audit([tmp_path / "run"]):
        pass
