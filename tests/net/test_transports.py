"""TCP, TLS and UDP keep the rules of a transport."""

from collections.abc import Awaitable, Callable

import pytest

from holdfast.net import event_loop, transport
from holdfast.net.address import Address, parse_address
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
