"""The Spark session: a quiet local one by default, or the cluster that the caller names.

Jobs are written against the DataFrame API and take the session they are handed, so the same code runs on `local[N]`,
on a standalone master, and under spark-submit or Spark Connect, where a session exists already.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from holdfast.model.errors import InputError
from holdfast.model.extras import require
from holdfast.pipeline.shipping import needs_shipping, ship_where_needed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Profile = Literal["run", "test"]

_JAVA_MIN = 17  # what Spark 4 needs
# A test ends before the optimising compiler and a parallel collector pay off: without them it takes half the time.
SHORT_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_LOCAL = f"local[{os.cpu_count() or 1},3]"  # three attempts a task, as on a cluster; plain local[N] never tries again


def session(
    name: str = "holdfast",
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    profile: Profile = "run",
) -> "SparkSession":
    """The running session, or a new one.

    `master` is Spark's own address; without it SPARK_REMOTE, SPARK_MASTER or this machine.
    """
    require("pyspark")
    from pyspark.sql import SparkSession  # noqa: PLC0415 - who lacks it learns how to get it

    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    remote = os.environ.get("SPARK_REMOTE") if master is None else None
    if remote:
        connected = SparkSession.builder.appName(name).remote(remote).getOrCreate()
        ship_where_needed(connected)
        return connected
    check_java()
    # Otherwise Spark's workers take the machine's python3, which does not have us.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    address = master or os.environ.get("SPARK_MASTER") or _LOCAL
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # else spark-submit has started us and has said all this
        builder = builder.master(address)
        for key, value in {**_settings(address, profile), **(settings or {})}.items():
            builder = builder.config(key, value)
    with _start_explained(address):
        found = builder.getOrCreate()
        found.sparkContext.setLogLevel("ERROR")
    ship_where_needed(found)
    return found


def plain_interrupts() -> None:
    """Ctrl-C ends a command, as it does without Spark.

    PySpark's own handler first asks the JVM to cancel all jobs, in the middle of the call that was interrupted, and
    what comes of that is a traceback. The JVM ends with us anyway.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _settings(master: str, profile: Profile) -> dict[str, str]:
    quiet = f"-Dlog4j2.configurationFile={files('holdfast.pipeline') / 'log4j2.properties'}"
    made = {
        "spark.driver.extraJavaOptions": f"{quiet} {SHORT_JVM}" if profile == "test" else quiet,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.executorEnv.NUMBA_NUM_THREADS": "1",  # Spark runs a task for every core already
        "spark.executorEnv.OMP_NUM_THREADS": "1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "holdfast-warehouse"),
    }
    if not needs_shipping(master):
        cores = str(os.cpu_count() or 1)
        made |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.python.daemon.module": "holdfast.pipeline.worker_daemon",
            "spark.driver.memory": "2g",  # the JVM only plans and shuffles; matching happens in Python workers
            "spark.sql.shuffle.partitions": "2" if profile == "test" else str(4 * int(cores)),
        }
    return made


def check_java() -> str:
    """The Java that Spark will take, in words; one line instead of a stack trace from Spark's launcher if it cannot."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else shutil.which("java")
    if java is None or not Path(java).exists():
        where = f"there is none in JAVA_HOME={home}" if home else "there is none on the path"
        raise InputError(f"Spark needs Java {_JAVA_MIN} or newer, and {where}; on Debian: {_INSTALL}")
    try:
        output = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False).stderr
    except OSError as problem:
        output = f"{problem.strerror}"
    version = re.search(r'version "(\d+)', output)
    if version is None or int(version[1]) < _JAVA_MIN:
        first = (output.splitlines() or ["nothing"])[0]
        raise InputError(f"Spark needs Java {_JAVA_MIN} or newer; {java} says {first}; on Debian: {_INSTALL}")
    return f"{version[1]} ({java})"


_INSTALL = "apt-get install openjdk-17-jre-headless"


@contextmanager
def _start_explained(address: str) -> Iterator[None]:
    """The JVM writes its banners to our stderr before any log setting applies; if it fails, their point is told."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as output:
        kept = os.dup(2)
        os.dup2(output.fileno(), 2)
        try:
            yield
        except Exception as error:
            output.seek(0)
            why = why_not_started(str(error), output.read().decode(errors="replace"))
            raise InputError(f"Spark does not start with master {address}: {why}") from error
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def why_not_started(error: str, banners: str) -> str:
    """One line of what went wrong: what a cluster's masters say, what Java says, or else what Python says."""
    for pattern, text in (
        (r"All masters are unresponsive[^\n]*", banners),
        (r"^: [\w.$]+: ([^\n]+)", error),
        (r"^(?:Invalid|Error:|Exception in thread) [^\n]+", banners),
    ):
        found = re.search(pattern, text, re.MULTILINE)
        if found:
            return found[found.lastindex or 0].strip()
    return (error.splitlines() or ["no reason was given"])[0]
