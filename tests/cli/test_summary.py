"""What the command line prints: the list of verbs, what `holdfast sim` says of a run and of its promises."""

from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.network.presets import preset_text


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    with pytest.raises(SystemExit) as end:
        main(["sim", *words, "--duration", "8"])
    assert end.value.code == 0
    return capsys.readouterr().out.splitlines()


def beginning(lines: list[str], label: str) -> int:
    return next(number for number, line in enumerate(lines) if line.startswith(f"  {label} "))


@pytest.fixture
def network(tmp_path: Path) -> str:
    path = tmp_path / "net.toml"
    path.write_text(preset_text("quickstart"))
    return str(path)


def test_what_is_against_a_promise_that_holds_is_told(
    network: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(capsys, network, "--check", "--out", str(tmp_path / "run"))
    lost = lines[beginning(lines, "lost")].split()[-1]
    assert lost != "0" and f"; {lost} against it, within what is promised)" in lines[beginning(lines, "P4")]
    assert lines[beginning(lines, "P1")].endswith(" checked)")


def test_incidents_stand_under_their_sum_and_not_among_the_counts(
    network: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["--set", "reliability.recovery=end-to-end", "--set", "links.loss=0.2"]
    lines = printed(capsys, network, *settings)
    at = beginning(lines, "incidents")
    kinds = dict(line.split() for line in lines[at + 1 :])
    assert all(line.startswith("    ") for line in lines[at + 1 :])
    assert sum(int(count.replace(",", "")) for count in kinds.values()) == int(lines[at].split()[1].replace(",", ""))


def test_the_list_of_verbs_says_of_each_in_one_line_what_it_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "..." not in capsys.readouterr().out.partition("Commands:")[2]  # where a line has no room
