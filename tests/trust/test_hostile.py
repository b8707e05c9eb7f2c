"""Well-formed nonsense at every door: the broker answers, does not grow, and others do not wait for it."""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from holdfast.model.errors import PeerError
from holdfast.wire.codec import decode_frame_untrusted
from tests.trust.absurd import Nonsense
from tests.trust.hostile import MODES, SHARES, run_mode

LONGEST_MS = 100.0
GROWTH_MIB = 40  # from the second fifth on, when everything has been used once


def test_nonsense_is_well_formed_and_of_every_kind() -> None:
    nonsense, kinds, refused = Nonsense(1), Counter[str](), 0
    for _ in range(600):
        frame = nonsense.frame()
        if frame[1]:
            continue
        try:
            kinds.update(type(each).__name__ for each in decode_frame_untrusted(frame))
        except PeerError:
            refused += 1
    assert refused < 150 and len(kinds) > 20
    assert {"Publish", "Batch", "Delta", "Snapshot", "Handover", "Stamped"} <= kinds.keys()
    assert Nonsense(1).frame() == Nonsense(1).frame() != Nonsense(2).frame()


@pytest.mark.slow
def test_a_broker_with_all_doors_survives_a_little_nonsense() -> None:
    found = asyncio.run(run_mode("rights", 200, seed=1, parts=1))
    assert found["frames"] >= 200 and set(found["by_door"]) == set(SHARES)
    assert found["bystander"]["events"] > 0


@pytest.mark.slow
def test_nobody_waits_and_nothing_grows_under_two_million_hostile_frames(tmp_path: Path) -> None:
    """Some ten minutes alone on a machine; `python -m tests.trust.hostile --save FILE` does the same and resumes."""
    frames, file = os.environ.get("HOLDFAST_HOSTILE_FRAMES", "2000000"), tmp_path / "hostile.json"
    subprocess.run([sys.executable, "-m", "holdfast", "doctor", "--compile"], check=True, stdout=subprocess.DEVNULL)
    for mode in MODES:  # each in a process of its own, as `run_mode` asks for
        command = ["-m", "tests.trust.hostile", "--frames", frames, "--modes", mode, "--save", str(file)]
        subprocess.run([sys.executable, *command], check=True)
    for found in json.loads(file.read_text())["rows"]:
        assert found["memory_mib"][-1] - found["memory_mib"][1] < GROWTH_MIB, found
        assert found["bystander"]["longest_ms"] < LONGEST_MS, found
