"""TCP, TLS, UDP and wires in memory keep the rules of a transport."""

from collections.abc import Awaitable, Callable

import pytest

from holdfast.model.errors import TransportError
from holdfast.net import event_loop, transport
from holdfast.net.address import Address, parse_address
from holdfast.net.memory import joined
from holdfast.net.wire import Accept, Listener, Wire
from holdfast.testing.transports import CHECKS, Transport
from tests.net.certificates import Authority

Check = Callable[[Transport], Awaitable[None]]


def run(check: Check, kind: Transport) -> None:
    async def main() -> None:
        await check(kind)

    event_loop.run(main())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("scheme", ["tcp", "udp"])
def test_tcp_and_udp_keep_the_rules(scheme: str, check: Check) -> None:
    run(check, Transport(parse_address(f"{scheme}://127.0.0.1:0"), transport.listen, transport.dial))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_tls_keeps_the_rules(check: Check, authority: Authority) -> None:
    async def listen(address: Address, accept: Accept) -> Listener:
        return await transport.listen(address, accept, authority.files("broker"))

    async def dial(address: Address, accept: Accept) -> Wire:
        return await transport.dial(address, accept, authority.files("client"))

    run(check, Transport(parse_address("tls://127.0.0.1:0"), listen, dial))


class InMemory:
    """Ends in one process, found by their ports."""

    def __init__(self) -> None:
        self._accepting: dict[int, Accept] = {}

    async def listen(self, address: Address, accept: Accept) -> Listener:
        port = address.port or len(self._accepting) + 1
        if port in self._accepting:
            raise TransportError(f"cannot listen on {address}: the port is in use")
        self._accepting[port] = accept
        return InMemoryListener(Address("tcp", address.host, port), lambda: self._accepting.pop(port, None))

    async def dial(self, address: Address, accept: Accept) -> Wire:
        if address.port not in self._accepting:
            raise TransportError(f"cannot reach {address}: connection refused")
        return joined("here", self._accepting[address.port], accept)


class InMemoryListener:
    def __init__(self, address: Address, close: Callable[[], object]) -> None:
        self.address = address
        self._close = close

    def close(self) -> None:
        self._close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_wire_in_memory_keeps_the_rules(check: Check) -> None:
    memory = InMemory()
    run(check, Transport(parse_address("tcp://127.0.0.1:0"), memory.listen, memory.dial))
