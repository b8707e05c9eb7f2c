"""What a machine needs to run brokers and Spark jobs, each looked at by itself.

A check says what it found and, unless all is well, what to do about it. It fails when something will not work, and
warns when it will work worse, or only in parts. Each is tried for real where that is cheap: a port is bound, a file
written, Spark started.
"""

import ctypes
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Literal

from holdfast import __version__
from holdfast.model.errors import InputError
from holdfast.model.extras import EXTRA_OF, how_to_install

Level = Literal["ok", "warn", "fail"]

PORTS = {7001: "a broker's", 7100: "a gateway's"}  # those that verbs take when nothing is said

_MIB, _GIB = 2**20, 2**30
_SPARK_S_MAX = 180.0  # a busy machine takes half a minute
_CLOCK_READINGS = 1_000
_BEFORE_S = 1_735_689_600  # 2025: a clock that is behind this was never set
_CLOCK_UNSYNCHRONISED = 5  # TIME_ERROR of adjtimex
_KEEP_RIGHT = "timedatectl set-ntp true"
_FILES_MIN, _FILES_GOOD = 256, 4_096  # a broker's connections are files, and Spark opens some hundreds
_DISK_MIN, _DISK_GOOD = 100 * _MIB, 2 * _GIB  # a trace of a minute; what Spark may spill
_MEMORY_MIN, _MEMORY_GOOD = 256 * _MIB, 3 * _GIB  # a broker with 100,000 conditions; Spark's driver and its workers
_DATAGRAM_BUFFER = 4 * _MIB  # what udp:// asks for


@dataclass(frozen=True)
class Finding:
    check: str
    level: Level
    found: str
    advice: str = ""


def python() -> Iterator[Finding]:
    loop = "uvloop" if find_spec("uvloop") else "asyncio's own loop, which is slower"
    yield Finding("python", "ok", f"{sys.version.split()[0]}, holdfast {__version__}, {loop}")
    missing = [name for name, extra in EXTRA_OF.items() if extra == "sim" and not find_spec(name)]
    if missing:
        advice = f"to simulate, plan and match: {how_to_install('sim')}; the rest works without"
        yield Finding("packages", "warn", f"missing: {', '.join(missing)}", advice)


def java() -> Iterator[Finding]:
    from holdfast.pipeline.session import check_java

    if find_spec("pyspark") is None:
        advice = f"for the Spark jobs: {how_to_install('spark')}; in a clone ./run installs it for the first job"
        yield Finding("spark", "warn", "pyspark is not installed", advice)
        return
    try:
        yield Finding("java", "ok", check_java())
    except InputError as problem:
        why, _, advice = str(problem).rpartition("; on Debian: ")
        yield Finding("java", "fail", why, advice)
        return
    yield _spark()


def _spark() -> Finding:
    program = "from holdfast.pipeline.session import session\nspark = session('holdfast doctor')\n"
    program += "print(spark.range(3).count(), spark.version)"
    began_s = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=_SPARK_S_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        return Finding("spark", "fail", f"does not start within {_SPARK_S_MAX:.0f} s", "is the machine out of memory?")
    counted = re.match(r"3 ([\d.]+\S*)$", done.stdout.strip())
    if done.returncode or counted is None:
        why = (done.stderr.strip().splitlines() or ["without a word"])[-1]
        return Finding("spark", "fail", why[:300], "try: python -c 'from holdfast.spark import session; session()'")
    return Finding("spark", "ok", f"{counted[1]} starts and counts, in {time.monotonic() - began_s:.0f} s")


def ports(asked: tuple[int, ...] = ()) -> Iterator[Finding]:
    for port, whose in {**PORTS, **dict.fromkeys(asked, "")}.items():
        about = f"{port}{f' ({whose} default)' if whose else ''}"
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind(("127.0.0.1", port))
            except OSError as problem:
                level: Level = "fail" if port in asked else "warn"
                advice = "stop what listens there (ss -ltnp), or choose another with --listen"
                yield Finding("port", level, f"{about}: {(problem.strerror or str(problem)).lower()}", advice)
                continue
        yield Finding("port", "ok", f"{about} is free")


def datagrams() -> Iterator[Finding]:
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _DATAGRAM_BUFFER)
        granted = sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2  # Linux tells twice what is there for data
    if granted < _DATAGRAM_BUFFER:
        advice = f"for udp:// under load: sysctl -w net.core.rmem_max={_DATAGRAM_BUFFER}"
        yield Finding("udp buffer", "warn", f"{granted // 1024:,} kB; a burst of events may overflow it", advice)
    else:
        yield Finding("udp buffer", "ok", f"{granted // 1024:,} kB")


def clock() -> Iterator[Finding]:
    readings = [time.monotonic_ns() for _ in range(_CLOCK_READINGS)]
    if any(later < earlier for earlier, later in pairwise(readings)):
        advice = "brokers cannot run on it; look at the machine's clocksource"
        yield Finding("clock", "fail", "the monotonic clock steps back", advice)
    elif time.time() < _BEFORE_S:
        yield Finding("clock", "fail", f"it is {time.strftime('%Y-%m-%d')} here", f"set the clock: {_KEEP_RIGHT}")
    elif _unsynchronised():
        advice = f"fine on one machine; between machines delays are off by as much: {_KEEP_RIGHT}"
        yield Finding("clock", "warn", "monotonic, but not kept right by NTP", advice)
    else:
        yield Finding("clock", "ok", "monotonic, and kept right by NTP")


def _unsynchronised() -> bool:
    """What the kernel thinks of its clock; where it cannot be asked, nothing is held against it."""
    try:
        state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(512))  # zeros: only ask
    except (OSError, AttributeError):
        return False
    return int(state) == _CLOCK_UNSYNCHRONISED


def numba_cache() -> Iterator[Finding]:
    """Without it the matcher is compiled anew, half a minute, in every process."""
    if find_spec("numba") is None:
        return
    advice = "set NUMBA_CACHE_DIR to a folder that can be written"
    try:
        from holdfast.matching import kernels

        folder = Path(kernels.copy_runs.stats.cache_path or "")
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, RuntimeError) as problem:
        yield Finding("numba cache", "fail", f"cannot be written: {problem}", advice)
    else:
        yield Finding("numba cache", "ok", str(folder))


def disk() -> Iterator[Finding]:
    for name, folder in (("here", Path.cwd()), ("temporary files", Path(tempfile.gettempdir()))):
        free = shutil.disk_usage(folder).free
        found = f"{name} ({folder}): {free / _GIB:,.1f} GiB free"
        advice = "traces, stores and what Spark spills go there; make room or choose another with TMPDIR"
        yield _amount("disk", free, _DISK_MIN, _DISK_GOOD, found, advice)


def open_files() -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = "unlimited" if hard == resource.RLIM_INFINITY else f"{hard:,}"
    files = sys.maxsize if soft == resource.RLIM_INFINITY else soft
    found = f"{soft:,} may be open (at most {most})" if soft != resource.RLIM_INFINITY else "unlimited"
    advice = "a broker needs one for each connection: ulimit -n 16384, or LimitNOFILE= in a systemd unit"
    yield _amount("open files", files, _FILES_MIN, _FILES_GOOD, found, advice)


def memory() -> Iterator[Finding]:
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:  # not Linux: nothing is known
        return
    found = re.search(r"MemAvailable: +(\d+) kB", text)
    if found:
        free = int(found[1]) * 1024
        advice = "Spark's driver takes 2 GiB, a broker with 100,000 conditions about 100 MiB"
        yield _amount("memory", free, _MEMORY_MIN, _MEMORY_GOOD, f"{free / _GIB:,.1f} GiB available", advice)


def _amount(check: str, there: float, least: float, good: float, found: str, advice: str) -> Finding:
    level: Level = "fail" if there < least else "warn" if there < good else "ok"
    return Finding(check, level, found, "" if level == "ok" else advice)


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    python,
    java,
    numba_cache,
    clock,
    ports,
    datagrams,
    open_files,
    memory,
    disk,
)
