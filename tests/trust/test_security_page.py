"""Each line of the trust model in SECURITY.md names tests that there are."""

import re

from tests.house.tree import ROOT


def test_every_test_that_the_trust_model_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "SECURITY.md").read_text()))
    found = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", file.read_text(), re.MULTILINE)
    }
    assert len(named) > 20
    assert not named - found
