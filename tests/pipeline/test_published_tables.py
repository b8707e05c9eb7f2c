"""Audits and sweeps as tables that others query."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.delta_judge import replayed, rows
from holdfast.model.errors import InputError
from holdfast.pipeline.audit.folder import LARGE, SMALL
from holdfast.pipeline.audit.slices import shown
from holdfast.pipeline.audit.to_tables import publish_tables
from holdfast.pipeline.sweep.folder import SweepFolder
from holdfast.pipeline.sweep.to_tables import publish_files
from holdfast.pipeline.tables.target import Mode, Target
from tests.pipeline.conftest import embedded_audit

pytest.importorskip("deltalake")


def publish(folder: Path, target: Target, mode: Mode) -> None:
    with embedded_audit([folder]) as audit:
        publish_tables(audit, shown(audit), target, mode)


def test_audits_of_several_runs_are_added_to_the_same_tables(
    traces: tuple[dict[str, Path], dict[str, dict[str, Any]]], tmp_path: Path
) -> None:
    """One of the runs has no deliveries, and so no delays: its columns without values fit all the same."""
    folders, target = traces[0], Target("delta", str(tmp_path / "audits"))
    publish(folders["honest"], target, "create")
    publish(folders["quiet"], target, "append")
    assert sorted(each.name for each in (tmp_path / "audits").iterdir()) == sorted([*LARGE, *SMALL])
    overall = rows(tmp_path / "audits" / "overall").to_pylist()
    assert sorted(each["run"] for each in overall) == ["honest", "quiet"]
    delivered = {each["run"]: each["delivered"] for each in overall}
    assert delivered["honest"] > 0 == delivered["quiet"]
    pairs = rows(tmp_path / "audits" / "pairs").to_pylist()
    assert sum(each["delivered"] for each in pairs) == delivered["honest"]
    with pytest.raises(InputError, match="this table exists"):
        publish(folders["honest"], target, "create")
    with pytest.raises(InputError, match="only Spark writes there; give --engine spark"):
        publish(folders["quiet"], Target("parquet", "s3a://bucket/x"), "create")


def finished(folder: Path, plan: str, *cells: int) -> SweepFolder:
    """A sweep's folder as Spark leaves it."""
    for name in ("runs", "summary"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"cell": pa.array(cells, pa.int64())}), folder / name / "part-00000-x.snappy.parquet")
        (folder / name / "_SUCCESS").touch()
        (folder / name / ".part-00000-x.snappy.parquet.crc").touch()
    (folder / "sweep.json").write_text(plan)
    return SweepFolder(folder)


def test_a_sweep_replaces_its_own_tables_and_no_others(tmp_path: Path) -> None:
    target = Target("delta", str(tmp_path / "lake"))
    publish_files(finished(tmp_path / "a", "one", 1, 2), target)
    publish_files(finished(tmp_path / "moved", "one", 1, 2, 3), target)  # the same plan, after a failed cell was mended
    assert sorted(rows(tmp_path / "lake" / "runs")["cell"].to_pylist()) == [1, 2, 3]
    assert replayed(tmp_path / "lake" / "summary").commits == 2
    assert (tmp_path / "a" / "runs" / "part-00000-x.snappy.parquet").exists()  # the sweep keeps its own
    with pytest.raises(InputError, match="this table exists"):
        publish_files(finished(tmp_path / "b", "another", 7), target)
    assert sorted(rows(tmp_path / "lake" / "runs")["cell"].to_pylist()) == [1, 2, 3]
