"""A run that does not come to its end leaves nothing that could be taken for one."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from holdfast import cli
from holdfast.books.trace import ROWS_MAX, TraceWriter
from holdfast.model.errors import InputError
from holdfast.net.live import LiveRun
from holdfast.sim.simulator import Simulation


@pytest.fixture
def network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    path = str(tmp_path / "net.toml")
    with pytest.raises(SystemExit):
        cli.main(["init", path])
    capsys.readouterr()
    return path


def test_an_interrupted_simulation_leaves_no_folder_behind(
    tmp_path: Path, network: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Simulation, "run", interrupted)
    out = tmp_path / "run"
    with pytest.raises(SystemExit) as ended:
        cli.main(["sim", network, "--out", str(out)])
    assert ended.value.code == 130
    assert capsys.readouterr().err == "holdfast: interrupted\n"
    assert not out.exists()


def test_a_terminated_simulation_leaves_no_folder_behind_either(
    tmp_path: Path, network: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def terminated(*_: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            raise ConnectionRefusedError  # as by a Spark that was terminated with us

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(sys, "stderr", sys.stderr)  # is put back after the test
    monkeypatch.setattr(Simulation, "run", terminated)
    out = tmp_path / "run"
    with pytest.raises(SystemExit) as ended:
        cli.main(["sim", network, "--out", str(out)])
    assert ended.value.code == 143
    assert capsys.readouterr().err == "holdfast: terminated\n"
    assert not out.exists()
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_live_run_that_is_stopped_while_it_starts_leaves_no_folder_behind(
    tmp_path: Path, network: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def start(run: LiveRun) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    monkeypatch.setattr(LiveRun, "start", start)
    with pytest.raises(SystemExit) as ended:
        cli.main(["up", network, "--in-process", "--out", str(tmp_path / "run")])
    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "holdfast: interrupted\n")
    assert not (tmp_path / "run").exists()


def test_an_interrupt_while_the_folder_is_being_made_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TraceWriter, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        TraceWriter(tmp_path / "run", {"name": "test"})
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_was_killed_is_told_from_a_whole_one(tmp_path: Path) -> None:
    TraceWriter(tmp_path / "killed", {"name": "test"})  # and nobody closes it
    with pytest.raises(InputError, match=r"holds a run that was cut off already; .* --overwrite"):
        TraceWriter(tmp_path / "killed", {"name": "test"})
    TraceWriter(tmp_path / "whole", {"name": "test"}).close()
    with pytest.raises(InputError, match="holds a run already"):
        TraceWriter(tmp_path / "whole", {"name": "test"})


def test_what_was_written_already_is_taken_back_too(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), TraceWriter(tmp_path / "run", {"name": "test"}) as trace:
        for seq in range(ROWS_MAX):
            trace.add("deliveries", "s", "c", seq, seq, "original", 0)
        assert (tmp_path / "run" / "deliveries" / "part-00000.parquet").is_file()
        raise ZeroDivisionError
    assert not (tmp_path / "run").exists()


def test_a_folder_that_was_there_before_stays_and_is_empty_again(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), TraceWriter(tmp_path, {"name": "test"}):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_ends_well_stays(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "run", {"name": "test"}) as trace:
        trace.close()
    assert (tmp_path / "run" / "deliveries").is_dir()
