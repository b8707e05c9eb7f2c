"""The console of a network that does not exist: as many brokers as asked for, with drawn loads, one of them down."""

import asyncio
import sys
from random import Random
from time import time
from typing import Any

from holdfast.console.access import ConsoleAccess
from holdfast.console.network_view import Look
from holdfast.console.serving import Console
from holdfast.net.address import Address

_DOWN = {"b7": "killed"}


class ManyBrokers:
    def __init__(self, count: int) -> None:
        self._dice = Random(3)
        self._near: dict[str, list[str]] = {f"b{number}": [] for number in range(count)}
        for number in range(1, count):
            other = self._dice.randrange(max(0, number - 40), number)
            self._near[f"b{number}"].append(f"b{other}")
            self._near[f"b{other}"].append(f"b{number}")
        self._sent: dict[tuple[str, str], int] = {}

    async def look(self) -> Look:
        names = [name for name in self._near if name not in _DOWN]
        return Look(time(), {name: self._status(name) for name in names}, _DOWN)

    def _status(self, name: str) -> dict[str, Any]:
        links = {far: self._link(name, far) for far in self._near[name]}
        counters = {"sent": sum(each["sent"] for each in links.values()), "received": 0, "lost": 0, "dropped": 0}
        plain: dict[str, Any] = {"broker": name, "time_s": time(), "problems": [], "queues": {}, "gauges": {}}
        peers = {far: far not in _DOWN for far in links}
        return plain | {"clients": self._dice.randrange(9), "peers": peers, "counters": counters, "links": links}

    def _link(self, name: str, far: str) -> dict[str, Any]:
        sent = self._sent[name, far] = self._sent.get((name, far), 0) + self._dice.randrange(200)
        plain = {"kind": "broker", "received": 0, "repairs": 0, "queue_bytes": 0, "queue_messages": 0}
        more = {"held_up": self._dice.random() < 0.01, "blocked": False, "round_trip_us": 200, "retransmitted": 0}
        return plain | more | {"sent": sent, "lost": sent // 40}


async def serve(count: int) -> None:
    about = {"name": f"{count} brokers", "kind": "brokers", "views": ["map", "streams"]}
    access = ConsoleAccess("127.0.0.1", acts=False)
    server = await Console().serve(Address("tcp", "127.0.0.1", 0), access, about, ManyBrokers(count).look)
    print(f"console: {server.address}", file=sys.stderr, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
