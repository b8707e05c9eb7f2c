"""The paper's timers against closed forms, and how they adapt."""

from math import sqrt
from random import Random
from statistics import mean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.protocol.recovery.srm.settings import SrmSettings
from holdfast.protocol.recovery.srm.window import REPAIRS, REQUESTS, Window
from tests.protocol.srm_network import FIXED, D, Room

NAMES = ("a", "b", "c", "d", "e")


def all_lose_the_first(room: Room) -> None:
    room.publish(1)
    room.publish(2, to=tuple(room.nodes))


@pytest.mark.parametrize("ratio", [0.1, 0.5])
def test_as_many_ask_as_the_closed_form_says(ratio: float) -> None:
    """n nodes at one distance, timers spread over W, mutual hearing after r W: 1 + n r - r^n ask on average."""
    spread_us = FIXED.request_spread * D
    asked, first_us = [], []
    for seed in range(300):
        room = Room(*NAMES, seed=seed, delay=lambda a, _b: D if a == "Z" else int(ratio * spread_us))
        all_lose_the_first(room)
        room.run(D + 5 * D)  # the first round ends after 4 D, the second begins after 6 D at the earliest
        times = room.times("request")
        asked.append(len(times))
        first_us.append(times[0] - D)
    count = len(NAMES)
    expected = 1 + count * ratio - ratio**count
    assert abs(mean(asked) - expected) <= 3 * stdev(asked) / sqrt(len(asked))
    expected_us = FIXED.request_wait * D + spread_us / (count + 1)
    assert abs(mean(first_us) - expected_us) <= 3 * stdev(first_us) / sqrt(len(first_us))


def test_on_a_chain_without_dice_only_the_nearest_asks() -> None:
    def place(name: str) -> int:
        return 0 if name == "Z" else 1 + NAMES.index(name)

    settings = SrmSettings(adaptive=False, request_spread=0)
    room = Room(*NAMES, settings=settings, delay=lambda a, b: D * abs(place(a) - place(b)))
    all_lose_the_first(room)
    room.run(16 * D)  # the last one alone would ask at 15 D
    assert room.said == [(when * D, "a", "request") for when in (3, 7, 15)]  # each round once, by the nearest


def test_a_lone_node_asks_in_doubling_rounds_and_then_gives_up() -> None:
    settings = SrmSettings(adaptive=False, request_spread=0)
    room = Room("a", settings=settings)
    all_lose_the_first(room)
    room.run(10**9)
    waits = [settings.request_wait * D * 2**number for number in range(settings.rounds_max)]
    assert room.times("request") == [D + sum(waits[: number + 1]) for number in range(len(waits))]
    assert room.nodes["a"].lost == [(1, "nobody answers")]
    assert room.nodes["a"].machine.settled


def test_rounds_stay_equally_long_after_the_last_doubling() -> None:
    settings = SrmSettings(adaptive=False, request_spread=0, doublings_max=1, rounds_max=4)
    room = Room("a", settings=settings)
    all_lose_the_first(room)
    room.run(10**9)
    assert room.times("request") == [D + step * settings.request_wait * D for step in (1, 3, 5, 7)]


def test_a_node_that_nobody_has_measured_is_taken_to_be_a_second_away() -> None:
    room = Room("a", settings=SrmSettings(adaptive=False, request_spread=0))
    machine = room.nodes["a"].machine
    assert machine._distances.to_us("stranger") == 1_000_000


def test_distances_follow_a_quarter_of_each_new_sample() -> None:
    distances = Room("a").nodes["a"].machine._distances
    for took_us in (100_000, 200_000, 200_000):
        distances.on_heard("Z", 0, took_us)
    assert distances.to_us("Z") == 200_000 - 0.75**2 * 100_000


def test_a_clock_that_is_wrong_does_not_stop_the_timers() -> None:
    distances = Room("a").nodes["a"].machine._distances
    distances.on_heard("ahead", 10**15, 0)
    distances.on_heard("behind", 0, 10**15)
    assert (distances.to_us("ahead"), distances.to_us("behind")) == (1_000, 10_000_000)


# Adapting ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(["loss", "sent", "near", "far", "slow", "fast"]), max_size=60), st.floats(2, 50))
def test_factors_stay_within_their_bounds(facts: list[str], group: float) -> None:
    log_group = max(0.3, group / 20)
    for bounds, wait_most in ((REQUESTS, 2.0), (REPAIRS, max(0.5, log_group))):
        window = Window(1.0, 1.0, bounds, adaptive=True)
        for fact in [*facts, "loss"]:
            match fact:
                case "loss":
                    window.on_new_loss(group, log_group)
                case "sent":
                    window.on_sent()
                case "near" | "far":
                    window.on_duplicate(1_000 if fact == "near" else 9_000, 1_000)
                case _:
                    window.on_first(50_000 if fact == "slow" else 500, 10_000)
        assert 0.5 <= window.wait <= wait_most
        assert 1 <= window.spread <= group


def after_losses(duplicates: int, sends: bool, delay_us: int = 1_000) -> Window:
    window = Window(1.0, 2.0, REQUESTS, adaptive=True)
    for _ in range(8):
        window.on_new_loss(50, 1.7)
        if sends:
            window.on_sent()
        window.on_first(delay_us, 10_000)
        for _ in range(duplicates):
            window.on_duplicate(10_000, 10_000)
    return window


def test_duplicates_widen_the_window_and_quiet_slowness_narrows_it() -> None:
    assert after_losses(duplicates=2, sends=False).spread > 2
    assert after_losses(duplicates=2, sends=False).wait > 1
    assert after_losses(duplicates=0, sends=False, delay_us=100_000).spread < 2
    assert after_losses(duplicates=0, sends=False).wait < 1


def test_who_always_asks_first_begins_earlier_and_narrows_its_window() -> None:
    window = after_losses(duplicates=0, sends=True)
    assert window.wait == 0.5
    assert window.spread < 2


def test_fixed_factors_do_not_move() -> None:
    window = Window(2.0, 2.0, REQUESTS, adaptive=False)
    for _ in range(9):
        window.on_new_loss(9, 1)
        window.on_sent()
        window.on_duplicate(1, 1)
        window.on_first(9, 1)
    assert (window.wait, window.spread) == (2.0, 2.0)
    assert all(2_000 <= window.draw_us(Random(seed), 1_000) <= 4_000 for seed in range(99))
