"""The command line's exit codes, and what it says on which stream."""

import errno
import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from types import ModuleType

import pytest
import typer

from holdfast import __version__, cli
from holdfast.cli.verbs import GROUP
from holdfast.model.errors import InputError


@pytest.fixture(autouse=True)
def a_verb_called_lift(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(weight: int) -> None:
        """Lift something."""
        if weight > 100:
            raise InputError("weight 200: expected at most 100")
        if weight > 50:
            raise typer.Exit(1)
        print(f"lifted {weight}")

    module = ModuleType("holdfast.cli.lift")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "holdfast.cli.lift", module)
    monkeypatch.setattr(cli, "VERBS", ("lift",))


def exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    return int(caught.value.code or 0)


def test_a_verb_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("lift", "7") == 0
    assert capsys.readouterr().out == "lifted 7\n"


def test_a_verb_may_say_that_it_did_not_hold() -> None:
    assert exit_code("lift", "60") == 1


def test_bad_input_is_told_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("lift", "200") == 2
    assert capsys.readouterr() == ("", "holdfast: weight 200: expected at most 100\n")


def test_a_full_disk_is_told_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(weight: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "run-7/weights")

    monkeypatch.setattr(sys.modules["holdfast.cli.lift"], "run", full)
    assert exit_code("lift", "7") == 2
    assert capsys.readouterr() == ("", "holdfast: run-7/weights: no space left on the disk\n")


@pytest.mark.parametrize("arguments", [["lift"], ["lift", "heavy"], ["drop"], ["--nonsense"], []])
def test_bad_usage_ends_with_2(arguments: list[str]) -> None:
    assert exit_code(*arguments) == 2


def test_a_mistyped_verb_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("lft") == 2
    assert "'lift'" in capsys.readouterr().err


def test_help_lists_the_verbs_and_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--help") == 0
    shown = capsys.readouterr().out
    assert "Lift something." in shown
    assert "Example:" in shown


@pytest.fixture
def another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(times: int) -> None:
        """Juggle something."""
        print(f"juggled {times} times")

    module = ModuleType("circus")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "circus", module)
    brought = EntryPoints(EntryPoint(name, "circus:run", GROUP) for name in ("juggle", "lift"))
    monkeypatch.setattr("holdfast.cli.verbs.entry_points", lambda group: brought.select(group=group))


@pytest.mark.usefixtures("another_package")
def test_a_verb_of_another_package_runs_and_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("juggle", "3") == 0
    assert capsys.readouterr().out == "juggled 3 times\n"
    assert exit_code("--help") == 0
    assert "Juggle something." in capsys.readouterr().out


@pytest.mark.usefixtures("another_package")
def test_another_package_cannot_replace_a_verb_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("lift", "7") == 0
    assert capsys.readouterr().out == "lifted 7\n"


@pytest.mark.usefixtures("another_package")
def test_a_verb_whose_package_is_missing_names_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("reproduce", "gossip") == 2
    told = "`holdfast reproduce` comes with the package holdfast-papers; add it with: pip install holdfast-papers"
    assert capsys.readouterr() == ("", f"holdfast: {told}\n")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--version") == 0
    assert capsys.readouterr().out == f"holdfast {__version__}\n"


def test_an_interrupt_ends_with_one_line_and_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(weight: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["holdfast.cli.lift"], "run", interrupted)
    assert exit_code("lift", "7") == 130
    assert capsys.readouterr() == ("", "holdfast: interrupted\n")


def test_an_interrupt_while_the_verb_is_still_being_imported_is_no_traceback_either(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(verbs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("holdfast.cli.app.app", interrupted)
    assert exit_code("lift", "7") == 130
    assert capsys.readouterr() == ("", "holdfast: interrupted\n")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_who_is_started_without_a_standard_stream_gets_the_same_code_and_no_traceback(closed: str) -> None:
    command = f"""exec {sys.executable} -m holdfast explain "a >" '{{}}' {closed}"""
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    told = "" if closed == "2>&-" else "holdfast: line 1, column 4: expected a value"
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(told)
    assert bool(ended.stderr) == bool(told)
    assert "Traceback" not in ended.stderr


def test_nothing_large_is_imported_before_an_interrupt_can_be_caught() -> None:
    code = "import sys, holdfast.cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"typer", "rich", "msgspec", "holdfast.model.errors"} & set(loaded)
