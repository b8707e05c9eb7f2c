"""Servers of other people's buses for a test, if they are installed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.bus_servers import BUSES
from bench.live_systems import Server


@contextmanager
def running(bus: str, folder: Path) -> Iterator[Server]:
    missing = BUSES[bus].missing()
    if missing:
        pytest.skip(missing)
    server = BUSES[bus](folder / bus)
    server.start()
    try:
        yield server
    finally:
        server.kill()
