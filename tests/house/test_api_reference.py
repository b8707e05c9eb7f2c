"""docs/api.md lists the public names, and says what the source says of them."""

import holdfast
from tests.house.api_reference import SECTIONS, reference
from tests.house.tree import ROOT


def test_the_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert page == reference(), "run: ./run python -m tests.house.api_reference docs/api.md"


def test_every_public_name_is_on_the_page() -> None:
    listed = {name.partition(":")[2] for section in SECTIONS for name in section.names}
    assert set(holdfast.__all__) <= listed


def test_every_function_on_the_page_is_explained() -> None:
    text = reference()
    for name in ("connect", "connect_sync", "connect_gateway", "parse", "covers", "overlaps", "match", "session"):
        after = text.partition(f"### {name}\n")[2].partition("```\n")[2].strip()
        assert after and not after.startswith("`holdfast"), f"{name} has no docstring"
