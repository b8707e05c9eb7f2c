"""Servers of other people's buses for a test, if they are installed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.carriers.servers import SERVERS, BusServer


@contextmanager
def running(bus: str, folder: Path) -> Iterator[BusServer]:
    missing = SERVERS[bus].missing()
    if missing:
        pytest.skip(missing)
    server = SERVERS[bus](folder / bus)
    server.start()
    try:
        yield server
    finally:
        server.kill()
