"""How long a subscriber waits for an answer before it asks again."""

from holdfast.protocol.recovery.rtt import RttEstimator


def test_what_was_only_guessed_is_forgotten_when_an_answer_is_timed() -> None:
    """The first answer came after a second request, two seconds after the first; the others take a tenth."""
    pace = RttEstimator(1_500_000)
    pace.guess(2_000_000)
    assert pace.timeout_us > 2_000_000
    assert not pace.known
    pace.add(100_000)
    assert pace.known
    assert 100_000 < pace.timeout_us < 200_000


def test_a_guess_that_was_too_short_grows_until_an_answer_can_be_timed() -> None:
    pace = RttEstimator(100_000)
    pace.guess(800_000)
    assert pace.timeout_us > 800_000


def test_equal_samples_leave_little_doubt() -> None:
    pace = RttEstimator(1_500_000)
    for _ in range(40):
        pace.add(100_000)
    assert 100_000 <= pace.timeout_us < 110_000
