"""Who gets which events of a batch: the same as asking for each neighbour alone."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.places import taker
from holdfast.protocol.picks import picks

FEW = st.lists(st.integers(0, 2**5 - 1), min_size=1, max_size=40)
MANY = st.lists(st.sets(st.integers(0, 300), max_size=4).map(lambda who: sum(1 << bit for bit in who)), min_size=1)
RUNS = st.lists(st.tuples(st.integers(0, 2**5 - 1), st.integers(1, 60)), min_size=1, max_size=9).map(
    lambda given: [who for who, count in given for _ in range(count)]
)
EQUAL = st.tuples(st.integers(0, 2**70), st.integers(1, 30)).map(lambda given: [given[0]] * given[1])


@given(FEW | MANY | RUNS | EQUAL)
def test_each_neighbour_gets_the_events_that_it_wants_in_order(wanted: list[int]) -> None:
    expected: dict[int, list[int]] = {}
    for bit in range(max(wanted).bit_length()):
        places = [at for at, who in enumerate(wanted) if who >> bit & 1]
        if places:
            expected[bit] = places
    found = picks(wanted)
    got = {bit: list(places) for places, who in found.items() for bit in range(who.bit_length()) if who >> bit & 1}
    assert got == expected
    numbers = tuple(range(len(wanted)))
    assert all(taker(places)(numbers) == tuple(places) and len(places) == len(tuple(places)) for places in found)
    assert len({tuple(places) for places in found}) == len(found)  # who wants the same is served together
