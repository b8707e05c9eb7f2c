"""`holdfast nemesis`: what it refuses before it starts anything."""

from pathlib import Path

import pytest

from holdfast.cli import main
from tests.house.tree import ROOT

FILE = str(ROOT / "examples" / "nemesis.toml")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([FILE, "--modes", "strikt"], 'did you mean "strict"'),
        ([FILE, "--faults", "kil-broker"], 'did you mean "kill-broker"'),
        ([FILE, "--minutes", "0"], "--minutes must be a number above 0"),
        ([FILE, "--minutes", "0.2"], "1.09091 s for each mode are too few"),
        (["nowhere.toml", "--minutes", "10"], "nowhere.toml: cannot be read"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["nemesis", *words])
    printed = capsys.readouterr()
    assert (end.value.code, printed.out, printed.err.count("\n")) == (2, "", 1)
    assert told in printed.err


def test_a_folder_that_exists_is_not_written_into(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["nemesis", FILE, "--out", str(tmp_path)])
    assert end.value.code == 2 and "exists already" in capsys.readouterr().err
