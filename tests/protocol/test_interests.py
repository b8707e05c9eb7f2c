"""Who wants what: telling anew what is wanted gives the same as dropping everything and adding what is wanted now."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.matching.shared_index import SharedIndex
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.interests import Interests

_CONDITIONS = [f"a = {n}" for n in range(5)]
_TOLD = st.tuples(st.sampled_from(["b1", "b2", "b3"]), st.lists(st.sampled_from(_CONDITIONS), unique=True))


@given(st.lists(_TOLD, max_size=12))
def test_a_change_is_as_if_all_were_dropped_and_added(told) -> None:
    book = ConditionBook()
    changed, anew = Interests(book, SharedIndex().view), Interests(book, SharedIndex().view)
    wanted: dict[str, list[str]] = {}
    for broker, conditions in told:
        before = wanted.get(broker, [])
        changed.change(broker, before, conditions)
        anew.drop(broker, before)
        anew.add(broker, conditions)
        wanted[broker] = conditions
        for n in range(5):
            assert changed.wanting({"a": n}) == anew.wanting({"a": n})
        assert sorted(changed.conditions()) == sorted(anew.conditions())
