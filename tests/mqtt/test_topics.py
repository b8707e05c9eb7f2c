"""Filters, judged by the words of the specification, and their conditions, judged by the filters."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.language.parser import parse
from holdfast.mqtt.packets import AskedFilter, Subscribe
from holdfast.mqtt.subscribing import asking_of, wanted_of
from holdfast.mqtt.topics import condition_of, is_filter, is_name, is_reserved, matches, may_meet

MATCHING = [  # section 4.7 of the specification
    ("sport/tennis/player1/#", "sport/tennis/player1", True),
    ("sport/tennis/player1/#", "sport/tennis/player1/ranking", True),
    ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True),
    ("sport/#", "sport", True),
    ("#", "a/b", True),
    ("sport/tennis/+", "sport/tennis/player1", True),
    ("sport/tennis/+", "sport/tennis/player1/ranking", False),
    ("sport/+", "sport", False),
    ("sport/+", "sport/", True),
    ("+/+", "/finance", True),
    ("/+", "/finance", True),
    ("+", "/finance", False),
    ("#", "$SYS/x", False),
    ("+/monitor/Clients", "$SYS/monitor/Clients", False),
    ("$SYS/#", "$SYS/x", True),
    ("$SYS/monitor/+", "$SYS/monitor/Clients", True),
    ("a/+/c/#", "a/b/x/c", False),
]

LEVELS = st.sampled_from(["a", "b", "", "%", "_", "!", "a_", "$a", "'"])
TOPICS = st.lists(LEVELS, min_size=1, max_size=5).map("/".join).filter(bool)
FILTERS = st.tuples(st.lists(LEVELS | st.just("+"), max_size=4), st.sampled_from([["#"], ["+"], ["a"], []])).map(
    lambda parts: "/".join([*parts[0], *parts[1]])
)


@pytest.mark.parametrize(("text", "topic", "expected"), MATCHING)
def test_filters_match_as_specified(text: str, topic: str, expected: bool) -> None:
    assert matches(text, topic) is expected


def is_exact(text: str) -> bool:
    """No name stands between a + and the #."""
    before = text.split("/")[:-1]
    return not text.endswith("#") or "+" not in before or set(before[before.index("+") :]) == {"+"}


@given(FILTERS.filter(bool), TOPICS)
def test_a_condition_holds_for_what_its_filter_describes_and_nothing_else(text: str, topic: str) -> None:
    holds = parse(condition_of(text)).matches({"topic": topic})
    assert holds or not matches(text, topic)
    if is_exact(text):
        assert holds == matches(text, topic)


def test_conditions_and_filters_agree_on_all_short_ones() -> None:
    topics = [t for n in (1, 2, 3, 4) for t in map("/".join, product(["a", "b", "", "$x"], repeat=n)) if t]
    filters = {t for n in (1, 2, 3, 4) for t in map("/".join, product(["a", "+", ""], repeat=n)) if t}
    for text in sorted(filters | {f"{each}/#" for each in filters} | {"#"}):
        holds = parse(condition_of(text)).matches
        found = {topic for topic in topics if holds({"topic": topic})}
        expected = {topic for topic in topics if matches(text, topic)}
        assert found == expected if is_exact(text) else found >= expected


def test_what_is_a_filter_and_what_is_a_topic() -> None:
    assert all(map(is_filter, ["a", "+", "#", "/", "a/+/b/#", "+/+"]))
    assert not any(map(is_filter, ["", "a#", "a/#/b", "a+", "+a/b", "#/a", "/".join("a" * 129)]))
    assert is_name("a/b") and not is_name("") and not is_name("a/+") and not is_name("a\n") and not is_name(5)
    assert is_reserved("$SYS/x") and is_reserved("$share/g/a") and not is_reserved("$aws/x")


def test_a_template_meets_the_filters_that_its_topics_may_have() -> None:
    assert may_meet("events/+", "events/{source}") and may_meet("events/p1", "events/{source}")
    assert may_meet("#", "events/{source}") and may_meet("events/#", "events/{source}")
    assert not may_meet("other/+", "events/{source}") and not may_meet("events", "events/{source}")


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        ("market/#?price > 5", ("market/#", "price > 5", "")),
        ("?price > 5/market/#", ("market/#", "price > 5", "")),
        ("$share/g/?price > 5/market/#", ("market/#", "price > 5", "g")),
        ("$share/g/market/#?price > 5", ("market/#", "price > 5", "g")),
        ("market/a", ("market/a", "", "")),
    ],
)
def test_a_client_without_properties_writes_its_condition_into_the_filter(
    filter_: str, expected: tuple[str, str, str]
) -> None:
    asked = AskedFilter(filter_, 1)
    found = wanted_of(asking_of(Subscribe(1, (asked,), {}), asked, 4), 4, "events/{source}")
    topic_filter, where, group = expected
    assert (found.topic_filter, found.group, found.asked.filter) == (topic_filter, group, filter_)
    assert ("price > 5" in found.condition) == bool(where)


def test_a_topic_has_at_most_two_hundred_levels() -> None:
    assert is_name("/".join(["a"] * 200)) and not is_name("/".join(["a"] * 201))
