"""A condition's lanes cover every event that it matches; everything else about them is thrift."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.language.lanes import PATTERNS_MAX, Template, pattern_matches, pattern_text, token_of
from holdfast.language.parser import parse
from holdfast.model.errors import InputError

TEMPLATE = Template("plant.{site}.{kind}", "plant")
_SPECIAL = set(".*>#+/$?[]\\ \t\n,:;\"'~|^&(){}")


def lanes(condition, prefixes=True, template=TEMPLATE):
    return [pattern_text(each) for each in template.covering(parse(condition), prefixes).patterns]


def test_equalities_and_in_lists_become_exact_lanes():
    assert lanes("site = 'a' AND kind IN ('t', 'p') AND temp > 3") == ["plant.a.p", "plant.a.t"]


def test_what_is_not_tested_is_a_wildcard():
    assert lanes("kind = 't'") == ["plant.*.t"]
    assert lanes("temp > 3") == ["plant.*.*"]


def test_a_prefix_is_a_prefix_only_where_the_bus_knows_them():
    assert lanes("site LIKE 'ab%' AND kind = 't'") == ["plant.ab….t"]
    assert lanes("site LIKE 'ab%' AND kind = 't'", prefixes=False) == ["plant.*.t"]


def test_a_disjunction_has_the_lanes_of_all_its_parts_and_none_twice():
    assert sorted(lanes("site = 'a' AND kind = 't' OR kind = 't' OR site = 'b' AND kind = 'p'")) == [
        "plant.*.t",
        "plant.b.p",
    ]


def test_a_missing_attribute_has_a_lane_of_its_own():
    assert lanes("site IS NULL AND kind = 't'") == ["plant.~.t"]
    assert TEMPLATE.lane({"kind": "t"}) == ("plant", "~", "t")


def test_too_many_lanes_become_fewer_wider_ones():
    values = ", ".join(f"'v{n}'" for n in range(200))
    assert lanes(f"site IN ({values}) AND kind IN ('a', 'b')") == ["plant.*.a", "plant.*.b"]
    many = " OR ".join(f"site = 's{n}' AND kind = 'k{n}'" for n in range(PATTERNS_MAX + 1))
    assert lanes(many) == ["plant.*.*"]


def test_a_condition_that_never_holds_needs_no_lane():
    assert lanes("site = 'a' AND site = 'b'") == []


def test_without_a_template_a_space_is_one_lane():
    template = Template("", "plant")
    assert template.lane({"site": "a"}) == ("plant",)
    assert lanes("site = 'a'", template=template) == ["plant"]


@pytest.mark.parametrize(
    "text", ["plant.{site", "plant.{}.x", "plant..x", "pl ant.{a}", "p.x{a}", "{a}.{a}", "p.*.{a}"]
)
def test_what_is_no_template_is_refused_with_a_suggestion(text):
    with pytest.raises(InputError, match="lanes"):
        Template(text, "plant")


def test_slashes_separate_as_well_and_names_may_have_dots():
    template = Template("plant/{home.team}/{kind}", "plant")
    assert template.attributes == ("home.team", "kind")
    assert template.lane({"home.team": "x", "kind": 1}) == ("plant", "x", "1")


_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.0, -0.0, 1.0, 2.5, 1e300, 2.0**60, float("inf"), float("nan")]),
    st.text(max_size=4),
    st.sampled_from(
        ["", "a", "ab", "abc", "a.b", "*", ">", "#", "+", "~", "%", "1", "true", "é" * 80, "é" * 81, "x" * 70]
    ),
    st.just(datetime(2026, 1, 1, tzinfo=UTC)),
    st.lists(st.sampled_from(["a", "ab"]), max_size=2),
)


@given(_values, _values)
def test_equal_values_have_equal_tokens_and_no_token_has_a_character_that_a_bus_knows(one, other):
    assert not _SPECIAL & (set(token_of(one)) - {"~"})
    assert token_of(one).isascii()
    kinds = {type(one), type(other)}
    comparable = kinds <= {int, float} or len(kinds) == 1
    if comparable and one == other:
        assert token_of(one) == token_of(other)
    elif type(one) is type(other) is str and len(one) < 20 and len(other) < 20:
        assert token_of(one) != token_of(other)


def _literal(value):
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return {True: "TRUE", False: "FALSE"}[value] if isinstance(value, bool) else repr(value)


_literals = st.one_of(
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.0, 1.0, 2.5]),
    st.sampled_from(["", "a", "ab", "a.b", "*", "~", "1", "é" * 81, "é" * 80]),
)
_names = st.sampled_from(["site", "kind", "temp"])


@st.composite
def _atoms(draw):
    name, shape = draw(_names), draw(st.integers(0, 8))
    value = draw(_literals)
    if shape == 0:
        return f"{name} = {_literal(value)}"
    if shape == 1:
        return f"{name} <> {_literal(value)}"
    if shape == 2:
        others = [each for each in draw(st.lists(_literals, max_size=3)) if type(each) is type(value)]
        return f"{name} IN ({', '.join(map(_literal, [value, *others]))})"
    if shape == 3:
        return f"{name} LIKE '{draw(st.sampled_from(['a%', 'ab%', '%b', 'a_', 'é%', 'é' * 70 + '%']))}'"
    if shape == 4:
        return f"{name} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
    if shape == 5:
        return f"{name} > {draw(st.integers(-2, 2))}"
    if shape == 6:
        return f"{name} + 1 = {draw(st.integers(-2, 3))}"
    if shape == 7:
        return f"{_literal(value)} = ANY({name})"
    return f"NOT ({name} = {_literal(value)})"


_conditions = st.recursive(
    _atoms(),
    lambda inner: st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(
        lambda each: f"({each[0]} {each[1]} {each[2]})"
    ),
    max_leaves=6,
)
_events = st.dictionaries(_names, _values, max_size=3)


@settings(max_examples=150, deadline=None)
@given(_conditions, st.lists(_events, min_size=1, max_size=8), st.booleans())
def test_every_event_that_matches_a_condition_travels_on_one_of_its_lanes(condition, events, prefixes):
    parsed = parse(condition)
    patterns = TEMPLATE.covering(parsed, prefixes).patterns
    for event in events:
        if parsed.matches(event):
            lane = TEMPLATE.lane(event)
            assert any(pattern_matches(each, lane) for each in patterns), (condition, event, lane, patterns)
