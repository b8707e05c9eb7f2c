"""The judge on Spark convicts every trace that was tampered with, acquits honest ones, and counts as the cheap one."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.books.promises import check
from tests.pipeline.audit_runs import simulate
from tests.pipeline.conftest import spark_audit
from tests.pipeline.tampered import TAMPERED, broken, honest_runs, tampered_copy
from tests.sim.test_judges import DRAWN

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PROMISES = ("P1", "P2", "P3", "P4", "P5", "P6", "P7")
SEEDS = {"best effort": 11, "recovery": 3, "gossip": 4, "hops": 8}


@pytest.fixture(scope="module")
def verdicts(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, dict[str, Any]]]:
    """One audit of all of them."""
    root = tmp_path_factory.mktemp("judged")
    folders = honest_runs(root)
    for kind, seed in SEEDS.items():
        simulate(DRAWN[kind](seed), root / kind)
    tampered = [tampered_copy(folders, name, root) for name in TAMPERED]
    everything = [*folders.values(), *(root / kind for kind in SEEDS), *tampered]
    with spark_audit(spark, everything) as found:
        return {run.label: (run.folder, run.verdicts) for run in found.runs}


def test_every_tampered_trace_is_convicted_and_every_honest_one_acquitted(verdicts: dict[str, Any]) -> None:
    found = {name: broken(own) - {"P8"} for name, (_, own) in verdicts.items()}
    assert {name: TAMPERED[name].promise in found[name] for name in TAMPERED} == dict.fromkeys(TAMPERED, True)
    assert {name: broken_ for name, broken_ in found.items() if name not in TAMPERED and broken_} == {}


def test_both_judges_count_the_same_of_all_of_them(verdicts: dict[str, Any]) -> None:
    for name, (folder, own) in verdicts.items():
        cheap = check(folder)
        for promise in PROMISES:
            one, other = cheap[promise], own[promise]
            assert (one.checked, one.broken, one.holds) == (other.checked, other.broken, other.holds), (name, promise)
