"""What is told to a neighbour, against the plain definition: everything is covered by something told, nothing told
is covered by another that is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.protocol import cover as cover_module
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


@given(st.lists(st.tuples(st.booleans(), _conditions), max_size=25), st.integers(0, 3_000))
def test_with_little_time_to_compare_more_are_told_and_each_is_stood_for(
    steps: list[tuple[bool, str]], work: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cover_module, "_WORK_MAX", work)
        cover, known, told = Cover(BOOK), set[str](), set[str]()
        for adding, text in steps:
            condition = str(BOOK.subscription(text))
            chosen, dropped = cover.add(condition) if adding else cover.remove(condition)
            (known.add if adding else known.discard)(condition)
            told |= set(chosen)
            told -= set(dropped)
            assert told == set(cover.chosen) <= known
            assert all(any(BOOK.covers(wide, each) for wide in told) for each in known)


class _CountingBook(ConditionBook):
    """How many bytes of narrower conditions were compared, for each filter of the wider, since it was last asked."""

    compared = 0

    def covers(self, wide: str, narrow: str) -> bool:
        self.compared += self.cost(wide).filters * self.cost(narrow).bytes
        return super().covers(wide, narrow)


@pytest.mark.parametrize(
    "condition",
    [
        "a = {0} OR b = {0}",  # on one shelf with all other disjunctions
        " OR ".join(f"a{at} = {{0}}" for at in range(16)),
        " AND ".join(f"a{at} <> {{0}}" for at in range(1_000)),
        "a NOT IN ({0}, " + ", ".join(map(str, range(1_000, 4_000))) + ")",
    ],
    ids=["disjunctions", "of sixteen", "conjunctions", "lists"],
)
def test_one_more_condition_is_compared_for_so_long_however_many_there_are(condition: str) -> None:
    book = _CountingBook()
    cover = Cover(book)
    for number in range(300):
        book.compared = 0
        cover.add(str(book.subscription(condition.format(number))))
        assert book.compared <= 2 * cover_module._WORK_MAX
    assert len(cover.chosen) == 300
