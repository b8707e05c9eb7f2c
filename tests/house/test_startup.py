"""`import holdfast` is quick and loads nothing heavy; nor does the command line before a verb needs it."""

import subprocess
import sys

import pytest

IMPORT_SECONDS_MAX = 0.3
HEAVY = {"duckdb", "numba", "numpy", "pandas", "pyarrow", "pyspark"}


def run_fresh(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout.strip()


def test_import_is_quick() -> None:
    program = "from time import process_time as now; start = now(); import holdfast; print(now() - start)"
    seconds = min(float(run_fresh(program)) for _ in range(5))  # the best one: the machine has other work too
    assert seconds < IMPORT_SECONDS_MAX, f"import holdfast took {seconds:.2f} s; see python -X importtime"


@pytest.mark.parametrize("module", ["holdfast", "holdfast.cli"])
def test_import_loads_nothing_heavy(module: str) -> None:
    loaded = set(run_fresh(f"import sys, {module}; print(*sys.modules)").split())
    assert not loaded & HEAVY, f"import {module} loads {sorted(loaded & HEAVY)}; import them where they are used"


def test_a_simulator_waits_for_compiled_code_and_arrow_until_it_needs_them() -> None:
    loaded = set(run_fresh("import sys, holdfast.sim.simulator; print(*sys.modules)").split())
    assert not loaded & (HEAVY - {"numpy"})  # books count with NumPy
