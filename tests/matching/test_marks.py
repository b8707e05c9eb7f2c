"""The bits of all keys that match: the same from the live index, from a view of a shared one, and key by key."""

from random import Random

from holdfast.language.parser import parse
from holdfast.matching.index import Index
from holdfast.matching.shared_index import SharedIndex

CONDITIONS = ["a = 1", "a < 3", "a >= 2 AND b = 0", "b = 0 OR a = 4", "TRUE", "b = 0 AND a >= 2", "s LIKE 'x%'"]
EVENTS = [{"a": a, "b": b, "s": s} for a in range(6) for b in range(2) for s in ("x1", "y")]


def test_marks_are_those_of_the_keys_that_match_whatever_was_marked_and_removed() -> None:
    dice = Random("marks")
    shared = SharedIndex()
    live, view, other = Index[str](), shared.view(), shared.view()
    filters = {condition: parse(condition).filters for condition in CONDITIONS}
    marked: dict[str, int] = {}
    for condition in CONDITIONS:
        other.add(condition, filters[condition])  # another node's marks are none of ours
        other.mark(condition, filters[condition], 1 << 20)
    for _ in range(200):
        condition, bits = dice.choice(CONDITIONS), dice.randrange(16)
        if condition in marked and dice.random() < 0.3:
            del marked[condition]
            for index in (live, view):
                index.remove(condition, filters[condition])
        else:
            for index in (live, view):
                if condition not in marked:
                    index.add(condition, filters[condition])
                index.mark(condition, filters[condition], bits)
            marked[condition] = bits
        event = dice.choice(EVENTS)
        expected = 0
        for each, its_bits in marked.items():
            if parse(each).matches(event):
                expected |= its_bits
        assert live.marks(event) == view.marks(event) == expected
    assert live.marks_each([]) == view.marks_each([]) == []
