"""How many events a store takes from whom: never more than its limit, and something of everybody."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.protocol.hops.store_admission import has_own_part, shared_part


@pytest.mark.parametrize("stored_max", [4, 50, 200_000])
def test_publishers_get_half_of_what_is_shared_and_who_came_further_more(stored_max: int) -> None:
    shared = stored_max - stored_max // 4
    parts = [shared_part(stored_max, hops) for hops in range(40)]
    assert parts[0] == shared - shared // 2
    assert parts == sorted(parts)
    assert parts[-1] == shared
    assert parts[1] - parts[0] == shared // 2 - shared // 4  # a window of events needs room at the first hop already


def test_a_part_is_for_a_neighbour_and_one_more() -> None:
    # A quarter of 120 is 30: ten for each of two neighbours and one that may come.
    assert has_own_part(120, [9, 0], 1)
    assert not has_own_part(120, [10, 0], 1)
    assert has_own_part(120, [0, 0], 64)  # one message fits into an empty part whatever its length


@given(st.integers(4, 1_000), st.lists(st.integers(0, 300), max_size=6))
def test_what_parts_take_by_themselves_is_never_more_than_the_quarter(stored_max: int, lengths: list[int]) -> None:
    if has_own_part(stored_max, lengths, 1):
        assert sum(each + 1 for each in lengths if each) <= stored_max // 4
