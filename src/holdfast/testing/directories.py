"""What every directory has to do: those next to a broker know each other, also when it is gone.

Real brokers over loopback, with heartbeats that tell (`None`) or with a service of your own. Run each of `CHECKS` with
a way to open the service; the places it writes to have to be empty before.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack

from holdfast.net.address import parse_address
from holdfast.net.directory import NewDirectory
from holdfast.net.node import BrokerNode
from holdfast.net.settings import NodeSettings
from holdfast.protocol.node import BrokerLayer
from holdfast.protocol.replication.layer import ReplicationLayer
from holdfast.protocol.replication.settings import ReplicationSettings
from holdfast.protocol.settings import ProtocolSettings

_PATIENCE_S = 60.0  # a machine under load is slow; what has not come by then never does
_QUICK = ProtocolSettings(heartbeat_us=100_000, lease_us=1_000_000)


class Neighbourhood:
    """Brokers with links, each with a view of the others through the directory."""

    def __init__(self, stack: AsyncExitStack, directory: NewDirectory | None) -> None:
        self._stack = stack
        self._directory = directory
        self._nodes: dict[str, BrokerNode] = {}

    async def join(self, name: str, *neighbours: str) -> None:
        outside = None if self._directory is None else "outside"
        plan = ReplicationSettings(suspect_us=600_000_000, directory=outside)  # nobody is replaced here
        peers = {each: self._nodes[each].listening[0] for each in neighbours}
        listen = (parse_address("tcp://127.0.0.1:0"),)
        settings = NodeSettings(
            name, listen, peers, "advertisements", _QUICK, replication=plan, directory=self._directory
        )
        node = self._nodes[name] = BrokerNode(settings)
        await node.start()
        self._stack.push_async_callback(node.stop, 0.1)
        await node.connected_to(*neighbours)

    def fail(self, name: str) -> None:
        self._nodes[name].crash()

    def neighbours_of(self, asked: str, broker: str) -> tuple[str, ...]:
        machine: object = self._nodes[asked].driver.machine
        while isinstance(machine, BrokerLayer) and not isinstance(machine, ReplicationLayer):
            machine = machine.inner
        assert isinstance(machine, ReplicationLayer)
        return machine.neighbours_of(broker)

    async def knows(self, asked: Iterable[str], broker: str, *neighbours_of: str) -> None:
        """Wait until these know who is next to the broker."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                while any(self.neighbours_of(each, broker) != neighbours_of for each in asked):
                    await asyncio.sleep(0.02)
        except TimeoutError:
            found = {each: self.neighbours_of(each, broker) for each in asked}
            raise AssertionError(f"next to {broker} are {neighbours_of}; they know of {found}") from None


async def those_next_to_a_broker_know_each_other(place: Neighbourhood) -> None:
    await place.join("f")
    for name in "abc":
        await place.join(name, "f")
    await place.knows("abc", "f", "a", "b", "c")


async def they_still_do_when_it_is_gone(place: Neighbourhood) -> None:
    await place.join("f")
    for name in "ab":
        await place.join(name, "f")
    await place.knows("ab", "f", "a", "b")
    place.fail("f")
    await place.join("c", "a")  # something else happens meanwhile
    await place.knows("c", "a", "c", "f")  # f has fallen silent; whoever replaces a is to ask the replica of f
    await place.knows("ab", "f", "a", "b")


async def a_new_neighbour_becomes_known(place: Neighbourhood) -> None:
    await place.join("f")
    await place.join("a", "f")
    await place.knows("a", "f", "a")
    await place.join("b", "f")
    await place.knows("ab", "f", "a", "b")


async def a_name_may_hold_any_character(place: Neighbourhood) -> None:
    await place.join("f/1-ü")
    for name in ("a:b", "../b"):
        await place.join(name, "f/1-ü")
    await place.knows(("a:b", "../b"), "f/1-ü", "../b", "a:b")


CHECKS = (
    those_next_to_a_broker_know_each_other,
    they_still_do_when_it_is_gone,
    a_new_neighbour_becomes_known,
    a_name_may_hold_any_character,
)
Check = Callable[[Neighbourhood], Awaitable[None]]


async def run(check: Check, directory: NewDirectory | None) -> None:
    async with AsyncExitStack() as stack:
        await check(Neighbourhood(stack, directory))
