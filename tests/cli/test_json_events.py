"""Events on the command line are JSON that keeps every type, both ways."""

import json
import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.json_events import event_for_json, read_event, timestamp_for_json
from holdfast.model.errors import InputError
from holdfast.model.event import attributes_of, nested

NAMES = st.lists(st.sampled_from(["a", "b", "", "$timestamp"]), min_size=1, max_size=4).map(".".join)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)).map(
    lambda at: at.replace(fold=0)
)
VALUES = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=3) | MOMENTS
ATTRIBUTES = st.dictionaries(NAMES, VALUES, max_size=6)


def typed(attributes: object) -> dict[str, tuple[type, str]]:
    assert isinstance(attributes, dict)
    return {name: (type(value), repr(value)) for name, value in attributes.items()}


@given(ATTRIBUTES)
def test_what_is_written_reads_back_with_all_types(attributes: dict[str, object]) -> None:
    text = json.dumps(event_for_json(attributes), default=timestamp_for_json)  # type: ignore[arg-type]
    assert typed(dict(attributes_of(read_event(text)))) == typed(attributes)


@given(st.dictionaries(st.lists(st.sampled_from("ab"), min_size=1, max_size=20).map(".".join), st.integers(0, 9)))
def test_nesting_and_flattening_undo_each_other(attributes: dict[str, int]) -> None:
    event = nested(attributes)
    assert dict(attributes_of(event)) == attributes
    assert all(event[name] == value for name, value in attributes.items())


def test_a_timestamp_may_have_any_offset_and_means_utc_without_one() -> None:
    for text, offset in (("2026-01-31T09:30:00+02:00", 2), ("2026-01-31 09:30:00", 0), ("2026-01-31T09:30:00Z", 0)):
        found = read_event(json.dumps({"at": {"$timestamp": text}, "n": math.inf}))
        assert found == {"at": datetime(2026, 1, 31, 9, 30, tzinfo=timezone(timedelta(hours=offset))), "n": math.inf}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": {"$timestamp": 5}}', "event attribute a: 5 is no timestamp; write it as"),
        ('{"a": {"b": {"$timestamp": "soon"}}}', "event attribute a.b: 'soon' is no timestamp"),
        ("[1]", "a JSON list, not an object"),
        ("{", "not JSON"),
        ('{"a": ' * 900 + "1" + "}" * 900, "nested"),
        ('{"a": ' + "9" * 5_000 + "}", "cannot be read"),
    ],
)
def test_what_is_no_event_is_explained(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        attributes_of(read_event(text))
