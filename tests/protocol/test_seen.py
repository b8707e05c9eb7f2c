"""At most once, within a bounded memory."""

from random import Random

from holdfast.protocol.duplicates import Seen


def test_each_number_is_new_once_in_any_order() -> None:
    seen = Seen(window=64, sources_max=10)
    numbers = list(range(1, 60))
    Random(1).shuffle(numbers)
    assert all(seen.first_time("a", n) for n in numbers)
    assert not any(seen.first_time("a", n) for n in numbers)


def test_many_numbers_at_once_are_as_new_as_one_by_one() -> None:
    rng = Random(2)
    for _ in range(300):
        at_once, one_by_one = Seen(window=8, sources_max=3), Seen(window=8, sources_max=3)
        for _ in range(10):
            source, first = rng.choice("abcd"), rng.randrange(40)
            seqs = tuple(range(first, first + rng.randint(1, 12)))
            if rng.random() < 0.3:
                seqs = tuple(rng.choices(range(40), k=rng.randint(1, 12)))
            assert at_once.first_times(source, seqs) == [one_by_one.first_time(source, seq) for seq in seqs]


def test_a_number_below_the_window_is_taken_for_a_duplicate() -> None:
    seen = Seen(window=8, sources_max=10)
    assert seen.first_time("a", 100)
    assert seen.first_time("a", 93)
    assert not seen.first_time("a", 92)


def test_events_of_a_former_life_are_new_once_after_those_of_the_next() -> None:
    seen = Seen(window=8, sources_max=10)
    assert all(seen.first_time("a", n) for n in (1, 2, 10**12 + 3, 10**12 + 4))
    assert all(seen.first_time("a", n) for n in (4, 3, 10**12 + 1))  # they had waited in a store
    assert not any(seen.first_time("a", n) for n in (1, 2, 3, 4, 10**12 + 1, 10**12 + 3, 10**12 + 4))
    assert [seen.has("a", n) for n in (4, 5, 10**12, 10**12 + 4)] == [True, False, False, True]


def test_the_windows_of_two_former_lives_are_kept_and_older_numbers_count_as_duplicates() -> None:
    seen = Seen(window=8, sources_max=10)
    for life in range(4):
        assert seen.first_time("a", 1_000 * life + 100)
    assert [seen.first_time("a", 1_000 * life + 101) for life in (1, 2, 3)] == [True] * 3
    assert not any(seen.first_time("a", n) for n in (100, 101, 1_000, 1_100, 2_100, 3_100))


def test_a_number_is_never_new_twice_whatever_leaps_there_are() -> None:
    rng = Random(4)
    for _ in range(500):
        seen, noted = Seen(window=8, sources_max=3), set[int]()
        for _ in range(30):
            seq = rng.choice((0, 20, 50, 1_000)) + rng.randrange(12)
            before = seen.has("a", seq)
            is_new = seen.first_time("a", seq)
            assert is_new is not before and not (is_new and seq in noted)
            noted.add(seq)


def test_the_source_heard_of_longest_ago_is_forgotten_first() -> None:
    seen = Seen(window=8, sources_max=2)
    for source in ("a", "b", "a", "c"):
        seen.first_time(source, 1)
    assert not seen.first_time("a", 1)  # heard of again after b
    assert seen.first_time("b", 1)


def test_the_lowest_new_number_of_a_range_is_the_one_that_a_look_at_each_would_find() -> None:
    rng = Random(3)
    for _ in range(300):
        seen = Seen(window=8, sources_max=3)
        for seq in rng.choices([*range(30), *range(60, 65)], k=rng.randint(0, 12)):
            seen.first_time("a", seq)
        first, last = rng.randrange(70), rng.randrange(70)
        expected = next((seq for seq in range(first, last + 1) if not seen.has("a", seq)), None)
        assert seen.lowest_new("a", first, last) == expected
