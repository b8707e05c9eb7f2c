"""`holdfast audit`: exit codes, what it prints, and what it says about runs that cannot be audited."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.cli import main
from tests.pipeline import audit_runs
from tests.pipeline.audit_runs import rewrite
from tests.pipeline.conftest import Audited, Compared


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "honest"
    audit_runs.simulate(audit_runs.HONEST, folder)
    return folder


def audit(*words: object) -> int:
    """The exit code."""
    try:
        main(["audit", *map(str, words)])
    except SystemExit as left:
        return int(left.code or 0)
    return 0


def test_a_broken_promise_is_exit_code_1_with_an_example_and_the_report_is_there(compared: Compared) -> None:
    assert compared.code == 1
    honest, broken = compared.told["runs"]
    assert (honest["promises"]["P2"]["holds"], broken["promises"]["P2"]["holds"]) == (True, False)
    assert broken["promises"]["P2"]["examples"][0]["source"] == "p"
    assert (compared.folder / "report.html").exists()


def test_an_older_audit_is_replaced_only_when_asked(
    compared: Compared, honest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--overwrite" in refused(capsys, honest, "--out", compared.folder)


def test_an_honest_run_is_exit_code_0_and_has_the_keys_of_the_simulators_outcome(
    honest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from holdfast.books.outcome import Outcome

    assert audit(honest, "--json", "--violations", 0, "--delivery", 1) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told) >= {"seed", "promises", *Outcome().as_json()}
    assert list(told["promises"]) == [f"P{number}" for number in range(1, 9)]
    assert all(set(verdict) >= {"holds", "checked", "broken", "examples"} for verdict in told["promises"].values())


def test_the_summary_and_the_comparison_are_for_people(audited_traces: Audited) -> None:
    from holdfast.pipeline.audit.summary import comparison, summary

    honest, broken = audited_traces.runs["honest"], audited_traces.runs["foreign"]
    assert "\n  owed                50\n" in summary(honest)
    assert "\n  P1                  holds (50 checked)\n" in summary(honest)
    assert "BROKEN 1 times in 51, such as subscriber q, source p" in summary(broken)
    lines = [line.split() for line in comparison(honest, broken).splitlines()]
    assert lines[0] == ["honest", "foreign"]
    assert ["owed", "50", "50"] in lines
    assert ["P1", "holds", "BROKEN"] in lines


# What cannot be audited is told before Spark is asked for anything -------------------------------------------------


@pytest.fixture
def copy(honest: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(honest, tmp_path / "copy"))


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert audit(*words) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "Traceback" not in told.err
    return told.err


def test_a_folder_without_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no run here" in refused(capsys, tmp_path / "nowhere")


def test_an_unfinished_run(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(copy / "subscriptions")
    shutil.rmtree(copy / "samples")
    assert "not finished, there is no table subscriptions, samples" in refused(capsys, copy)


def test_a_file_that_was_cut_off(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = copy / "deliveries" / "part-00000.parquet"
    part.write_bytes(part.read_bytes()[:-20])
    assert "part-00000.parquet: cannot be read" in refused(capsys, copy)


@pytest.mark.slow
def test_pages_that_are_damaged_behind_a_good_footer(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = copy / "deliveries" / "part-00000.parquet"
    content = part.read_bytes()
    part.write_bytes(content[:4] + bytes(300) + content[304:])
    assert "part-00000.parquet" in refused(capsys, copy, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_format(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rewrite(copy, "run", lambda run: run.set_column(0, "format", pa.array([99])))
    assert "written in format 99, this version reads 2" in refused(capsys, copy)


def test_columns_that_are_missing_or_of_another_type(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rewrite(copy, "deliveries", lambda table: table.drop_columns(["via"]))
    rewrite(copy, "messages", lambda table: table.set_column(4, "sent", table["sent"].cast(pa.int32())))
    told = refused(capsys, copy)
    assert "deliveries has no column via" in told
    assert "messages has sent as int32, expected int64" in told


def test_a_condition_that_is_none(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = pa.array(["n = 1", "n > ", "n < 2"])
    rewrite(copy, "subscriptions", lambda table: table.set_column(2, "condition", wrong))
    told = refused(capsys, copy)
    assert "copy: damaged, 1 subscription is not valid" in told and "1: line 1" in told
    assert "--skip-invalid" not in told  # which is not for audits


def test_a_file_that_is_not_part_of_the_table(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"a": [1]}), copy / "deliveries" / "part-99999.parquet")
    assert "deliveries/part-99999.parquet: has no column" in refused(capsys, copy)


def test_a_run_that_says_nothing_of_itself(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rewrite(copy, "run", lambda table: table.slice(0, 0))
    assert "expected one row, found 0" in refused(capsys, copy)


def test_all_problems_of_all_runs_are_told_at_once(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(copy / "incidents")
    told = refused(capsys, copy, tmp_path / "nowhere", tmp_path / "nowhere")
    assert all(words in told for words in ("given twice", "no table incidents", "no run here"))


@pytest.mark.parametrize("count", [1, 3])
def test_a_comparison_of_other_than_two(copy: Path, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"two runs, found {count}" in refused(capsys, *[copy] * count, "--compare")


def test_a_run_is_not_overwritten_by_its_audit(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "one of the runs" in refused(capsys, copy, "--out", copy, "--overwrite")
