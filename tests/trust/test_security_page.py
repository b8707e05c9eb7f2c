"""Each line of the trust model in SECURITY.md names tests that there are."""

import re

from tests.house.tree import ROOT

PAGE = (ROOT / "SECURITY.md").read_text()
_NAMED = re.compile(r"`(test_\w+|Test\w+)`")


def test_every_test_that_the_trust_model_names_exists() -> None:
    found = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^ *(?:async def|def|class) (test_\w+|Test\w+)", file.read_text(), re.MULTILINE)
    }
    named = set(_NAMED.findall(PAGE))
    assert len(named) > 60
    assert not named - found


def test_every_line_of_the_trust_model_names_a_test() -> None:
    model = PAGE.partition("## The trust model")[2].partition("\n## ")[0]
    lines = [line for line in model.splitlines() if line.startswith("|")]
    heads = [line for line in lines if "cannot | where | test |" in line]
    rows = [line for line in lines if line not in heads and not line.startswith("|---")]
    assert len(heads) == 4 and len(rows) > 30
    assert not [line for line in rows if not _NAMED.search(line.rpartition(" | ")[2])]
