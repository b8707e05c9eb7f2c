"""Run a cell in a process of its own, inside a Spark task.

The simulator is a long loop over plain objects and may need much memory. When the machine's memory runs out, the
kernel kills the largest process: here that is the cell's, not Spark's worker, so the job goes on and the cell's record
says what happened. The process ends with its cell and gives all memory back.
"""

import ctypes
import os
import signal
import sys
from contextlib import suppress
from functools import cache

import pyarrow as pa

from holdfast.network.load import parse_text
from holdfast.pipeline.sweep.cell import failed, run_cell
from holdfast.pipeline.sweep.folder import SweepFolder
from holdfast.pipeline.sweep.plan import SweepPlan
from holdfast.sim.simulator import Simulation

_PR_SET_PDEATHSIG = 1  # from Linux's prctl.h
_SMALL = {
    "duration_s": 0.1,
    "topology": {"kind": "line", "brokers": 2},
    "clients": {"per_broker": 1},
    "workload": {"kind": "patterns", "rate_per_s": 100},
}


def run_apart(plan: SweepPlan, folder: SweepFolder, number: int) -> None:
    """Simulate a cell and leave its record in the folder, whatever becomes of the process."""
    _warm_up()
    child = os.fork()
    if child == 0:
        _be_the_child(plan, folder, number)
    _, status = os.waitpid(child, 0)
    if not folder.holds(number):
        folder.write(failed(number, plan.cell(number).seed, _what_happened(os.waitstatus_to_exitcode(status))))


@cache
def _warm_up() -> None:
    """Load the simulator's compiled loops once for each worker: a process that is forked later has them."""
    with suppress(Exception):  # what is wrong with the simulator stands in every cell's record
        Simulation(parse_text(_SMALL)).run()


def _be_the_child(plan: SweepPlan, folder: SweepFolder, number: int) -> None:
    code = 1
    try:
        _die_with_parent()
        pa.set_cpu_count(1)  # for traces; Spark runs a task for every core already
        folder.write(run_cell(plan, number, folder.trace(number) if plan.traces else None))
        code = 0
    except BaseException as error:
        print(f"sweep cell {number}: {error!r}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)  # and not back into Spark's worker, whose sockets we share


def _die_with_parent() -> None:
    """A killed job must not leave simulations behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _what_happened(code: int) -> str:
    if code == -signal.SIGKILL:
        return "the process was killed by signal 9; was there enough memory?"
    return f"the process was killed by signal {-code}" if code < 0 else f"the process ended with code {code}"
