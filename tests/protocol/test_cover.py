"""What is told to a neighbour, against the plain definition: everything is covered by something told, nothing told
is covered by another that is told."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.cover import Cover

_TESTS = [
    "a = 1",
    "a < 5",
    "a < 9",
    "b = 'x'",
    "b LIKE 'x%'",
    "c IS NULL",
    "c >= 2",
    "a IN (1, 2)",
    "a < c",
    "b IS NOT NULL",
    "b = d",
]
_conjunctions = st.lists(st.sampled_from(_TESTS), min_size=1, max_size=3, unique=True).map(" AND ".join)
_conditions = st.one_of(
    _conjunctions, st.lists(_conjunctions, min_size=2, max_size=2).map(" OR ".join), st.just("TRUE"), st.just("FALSE")
)
BOOK = ConditionBook()


@given(st.lists(st.tuples(st.booleans(), _conditions), max_size=25))
def test_the_told_conditions_are_the_fewest_that_stand_for_all(steps: list[tuple[bool, str]]) -> None:
    cover, known, told = Cover(BOOK), set[str](), set[str]()
    for adding, text in steps:
        condition = str(BOOK.subscription(text))
        chosen, dropped = cover.add(condition) if adding else cover.remove(condition)
        (known.add if adding else known.discard)(condition)
        told |= set(chosen)
        told -= set(dropped)
        assert told == set(cover.chosen) <= known
        assert all(any(BOOK.covers(wide, each) for wide in told) for each in known)
        assert not any(BOOK.covers(wide, each) for wide in told for each in told if wide != each)
