"""The durable bench: what it holds against its goals, and the page that it writes."""

from bench.durable import as_data, checks, section

RATES = {
    "holdfast": [50_000.0, 40_000.0, 60_000.0],
    "rabbitmq": [2_000.0, 1_000.0, 2_000.0],
    "jetstream, sync always": [3_000.0, 4_000.0, 3_000.0],
    "jetstream, default": [20_000.0, 20_000.0, 80_000.0],
}


def test_each_round_is_held_against_the_best_that_syncs_in_it() -> None:
    syncing, default = checks(RATES)
    assert (syncing.measured, syncing.holds) == (50_000 / 3_000, True)
    assert (default.measured, default.holds) == (2.0, True)


def test_what_does_not_hold_is_said() -> None:
    slow = {**RATES, "holdfast": [10_000.0, 10_000.0, 10_000.0]}
    assert "does NOT hold" in section(as_data(slow, ["activemq: not installed"], 3))
