"""The rule book by example: one file of cases for each rule of docs/language.md.

A row has a condition (`sub`) and events that must match or not; or what the condition is printed as
(`canonical`), its `warnings`, the `error` with its place, and what it covers, overlaps or stands apart from.
"""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast import ConditionError, covers, overlaps, parse
from holdfast.language import limits

HERE = Path(__file__).parent
RULE_BOOK = HERE.parent.parent / "docs" / "language.md"
ROWS_MIN = 8
VERDICTS = {"match", "nomatch"}
RELATIONS = {"covers", "not_covers", "overlaps", "apart"}
KEYS = {"sub", "canonical", "warnings", "error", "place"} | VERDICTS | RELATIONS

Row = Mapping[str, Any]


def scalar(found: dict[str, Any]) -> object:
    """Timestamps, NaN and the infinities, which JSON does not have."""
    if set(found) == {"$timestamp"}:
        return datetime.fromisoformat(found["$timestamp"])
    if set(found) == {"$double"}:
        return float(found["$double"])
    return found


CASES = {
    path.stem: [json.loads(line, object_hook=scalar) for line in path.read_text(encoding="utf-8").splitlines()]
    for path in sorted((HERE / "cases").glob("*.jsonl"))
}


def rows_with(*keys: str) -> list[Any]:
    return [
        pytest.param(row, id=f"{stem}:{number}")
        for stem, rows in CASES.items()
        for number, row in enumerate(rows, 1)
        if any(key in row for key in keys)
    ]


@pytest.mark.parametrize("row", rows_with("match", "nomatch"))
def test_events_match_as_the_rule_says(row: Row) -> None:
    subscription = parse(row["sub"])
    for event in row.get("match", ()):
        assert subscription.matches(event), f"{row['sub']} should match {event}"
    for event in row.get("nomatch", ()):
        assert not subscription.matches(event), f"{row['sub']} should not match {event}"


@pytest.mark.parametrize("row", rows_with("match", "nomatch"))
def test_canonical_text_reads_back_as_the_same_subscription(row: Row) -> None:
    subscription = parse(row["sub"])
    again = parse(str(subscription))
    assert again == subscription
    assert str(again) == str(subscription)
    for event in (*row.get("match", ()), *row.get("nomatch", ())):
        assert again.matches(event) == subscription.matches(event)


@pytest.mark.parametrize("row", rows_with("canonical"))
def test_a_condition_is_printed_as_the_rule_says(row: Row) -> None:
    assert str(parse(row["sub"])) == row["canonical"]


@pytest.mark.parametrize("row", rows_with("warnings"))
def test_warnings_are_given_as_the_rule_says(row: Row) -> None:
    assert list(parse(row["sub"]).warnings) == row["warnings"]


@pytest.mark.parametrize("row", rows_with("error"))
def test_a_condition_is_refused_as_the_rule_says(row: Row) -> None:
    with pytest.raises(ConditionError) as caught:
        parse(row["sub"])
    assert row["error"] in str(caught.value)
    assert list(caught.value.problems[0].place(row["sub"])) == row["place"]


@pytest.mark.parametrize("row", rows_with(*RELATIONS))
def test_conditions_cover_and_overlap_as_the_rule_says(row: Row) -> None:
    one = parse(row["sub"])
    for relation, judge, expected in (
        ("covers", covers, True),
        ("not_covers", covers, False),
        ("overlaps", overlaps, True),
        ("apart", overlaps, False),
    ):
        for text in row.get(relation, ()):
            assert judge(one, parse(text)) is expected, f"{row['sub']} / {text}: expected {relation}"


def test_every_rule_has_its_case_file_and_every_case_file_its_rule() -> None:
    headings = re.findall(r"^## L(\d+)\b", RULE_BOOK.read_text(encoding="utf-8"), re.MULTILINE)
    rules = [int(number) for number in headings]
    assert rules == list(range(1, len(rules) + 1)), "rules are numbered one by one"
    assert [int(stem[1:3]) for stem in CASES] == rules


def test_the_rule_book_states_every_limit() -> None:
    section = RULE_BOOK.read_text(encoding="utf-8").partition("## L19")[2].partition("## L20")[0]
    stated = {int(number.replace(",", "")) for number in re.findall(r"\| ([\d,]+) \|", section)}
    assert stated == {value for name, value in vars(limits).items() if name.endswith("_MAX")}


@pytest.mark.parametrize("stem", CASES)
def test_a_case_file_has_enough_rows_and_known_keys(stem: str) -> None:
    assert len(CASES[stem]) >= ROWS_MIN
    for row in CASES[stem]:
        assert "sub" in row
        assert set(row) <= KEYS
        assert ("error" in row) == ("place" in row)
