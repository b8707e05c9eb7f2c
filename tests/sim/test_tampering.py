"""The judge in one process, on many drawn runs: it accuses no honest one, and convicts what was tampered with."""

from pathlib import Path

import pytest

from tests.sim.tampering import TAMPERINGS, matrix

# With recovery a single event can hide behind repairs that came twice, or behind a subscription that may be unknown.
UNSURE = {"repair dropped", "one dropped"}


@pytest.mark.slow
def test_no_honest_run_is_accused_and_whatever_was_done_to_it_is_found(tmp_path: Path) -> None:
    found, accused = matrix(range(100, 110), tmp_path)
    assert accused == []
    certain = {key: counts for key, counts in found.items() if key[1] not in UNSURE}
    assert {name for _, name in certain} == TAMPERINGS.keys() - UNSURE
    assert {key: counts for key, counts in certain.items() if counts[0] < counts[1]} == {}
