"""Who a broker's neighbours are, told to its neighbours' neighbours by an external service instead of by heartbeats.

A broker says who its neighbours are, and hears the same of them; that outlives it, so that those around a broker that
fails know who they are. `net/zookeeper.py` is one such service, and own ones pass the kit in `holdfast.testing`.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Protocol

from holdfast.model.errors import InputError
from holdfast.model.extras import require

OnListed = Callable[[str, tuple[str, ...]], None]  # this broker has these neighbours


class DirectoryService(Protocol):
    """None of these waits: what cannot be done now is done when the service is there again."""

    def register(self, broker: str, neighbours: tuple[str, ...]) -> None:
        """The broker has these neighbours from now on; nobody needs to know of one without any."""

    def watch(self, broker: str, on_listed: OnListed) -> None:
        """Say who its neighbours are, now and whenever that changes; in the event loop of the caller."""

    def close(self) -> None: ...


NewDirectory = Callable[[], DirectoryService]
_ZOOKEEPER = "zookeeper://"


def directory_at(address: str) -> NewDirectory:
    """How to open the service at an address such as zookeeper://127.0.0.1:2181/holdfast."""
    if not address.startswith(_ZOOKEEPER):
        raise InputError(f"directory {address}: write it as zookeeper://HOST:PORT/PATH")
    hosts, _, path = address.removeprefix(_ZOOKEEPER).partition("/")
    for host in hosts.split(","):
        name, colon, port = host.rpartition(":")
        if not colon or not name or not port.isdigit():
            raise InputError(f"directory {address}: {host or 'nothing'} is no HOST:PORT, such as 127.0.0.1:2181")
    require("kazoo")
    opener = import_module("holdfast.net.zookeeper")
    service: NewDirectory = lambda: opener.ZooKeeperDirectory(hosts, path)  # noqa: E731
    return service
