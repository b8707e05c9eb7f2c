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


@given(st.lists(st.tuples(st.booleans(), _conditions), max_size=25), st.integers(1, 2))
def test_what_stood_under_a_condition_that_goes_is_looked_at_in_slices_and_always_stood_for(
    steps: list[tuple[bool, str]], orphans_max: int
) -> None:
    cover, known, told = Cover(BOOK, orphans_max), set[str](), set[str]()

    def look_at(condition: str) -> None:
        chosen, dropped = (cover.add if condition in known else cover.remove)(condition)
        assert len(chosen) <= orphans_max + 1
        told.update(chosen)
        told.difference_update(dropped)
        assert told == set(cover.chosen)
        assert told - known == cover.leaving.keys() - known
        assert all(any(BOOK.covers(wide, each) for wide in told) for each in known)

    for adding, text in steps:
        condition = str(BOOK.subscription(text))
        (known.add if adding else known.discard)(condition)
        look_at(condition)
    while cover.leaving:
        look_at(next(iter(cover.leaving)))
    assert told <= known


def test_a_condition_that_many_stood_under_leaves_only_when_each_was_looked_at() -> None:
    book = ConditionBook()
    cover = Cover(book)
    assert cover.add("x >= 0") == (["x >= 0"], [])
    for number in range(1_000):
        assert cover.add(f"x = {number}") == ([], [])
    told, slices = list[str](), 0
    while not slices or "x >= 0" in cover.leaving:
        chosen, dropped = cover.remove("x >= 0")
        assert len(chosen) <= cover_module._ORPHANS_MAX
        assert dropped == ([] if "x >= 0" in cover.leaving else ["x >= 0"])
        told, slices = told + chosen, slices + 1
    assert sorted(told) == sorted(f"x = {number}" for number in range(1_000))
    assert slices == 5


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
