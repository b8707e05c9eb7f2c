"""docs/network-file.md lists what there is, and nothing else."""

import re
from dataclasses import fields
from pathlib import Path

from holdfast.network.keys.protocol import PROTOCOL
from holdfast.network.keys.root import ROOT
from holdfast.network.presets import PRESETS
from holdfast.network.reference import reference, renewed
from holdfast.network.shapes import Either, Listed, Shape
from holdfast.network.tables import Repeated, Table
from holdfast.protocol.settings import ProtocolSettings

PAGE = Path(__file__).parents[2] / "docs" / "network-file.md"


def test_the_page_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == renewed(page), "run: python -m holdfast.network.reference docs/network-file.md"


def every_key(shape: Shape) -> set[str]:
    match shape:
        case Table():
            names = set(shape.all_keys)
            return names.union(*(every_key(key.shape) for key in shape.all_keys.values()))
        case Repeated():
            return every_key(shape.table)
        case Listed():
            return every_key(shape.of)
        case Either():
            return every_key(shape.other)
    return set()


def test_every_key_is_on_the_page() -> None:
    text = reference()
    missing = [key for key in sorted(every_key(ROOT)) if f"`{key}`" not in text and f"[{key}]" not in text]
    assert [key for key in missing if key not in ("burst",)] == []
    assert "`[links.burst]`" in text


def test_every_key_says_what_it_means() -> None:
    for row in re.findall(r"^\| .*\|$", reference(), re.MULTILINE):
        assert all(cell.strip() for cell in row.strip("|").split("|")), row


def test_every_protocol_setting_has_a_key() -> None:
    keys = {key.name.removesuffix("_s") + ("_us" if key.name.endswith("_s") else "") for key in PROTOCOL.keys}
    assert keys == {each.name for each in fields(ProtocolSettings)}


def test_every_preset_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in PRESETS)
