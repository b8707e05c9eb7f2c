"""Fixtures for pytest: a broker for tests of applications.

Enable them in a `conftest.py` with `pytest_plugins = ["holdfast.testing.fixtures"]`, or import the ones that a test
file needs. The broker runs in a thread of its own, so that tests with and without `async` can use it, and no plugin for
asyncio is needed.

    def test_an_order_is_announced(holdfast_broker: str) -> None:
        with holdfast.connect_sync(holdfast_broker) as client:
            ...
"""

from collections.abc import Iterator

import pytest

from holdfast.net.sync_broker import SyncBroker


@pytest.fixture
def holdfast_broker() -> Iterator[str]:
    """The address of a broker on a free port of this machine, which lives as long as the test."""
    with SyncBroker() as broker:
        yield broker.address
