"""Listen and dial by the scheme of an address."""

from holdfast.net import tcp, udp
from holdfast.net.address import Address
from holdfast.net.half_open import HalfOpen
from holdfast.net.tls import TlsFiles
from holdfast.net.wire import Accept, Listener, Paused, Refused, Wire


async def listen(
    address: Address,
    accept: Accept,
    tls: TlsFiles | None = None,
    half_open: HalfOpen | None = None,
    refused: Refused | None = None,
    paused: Paused | None = None,
) -> Listener:
    """`refused` learns who has failed a TLS handshake, and why; `paused`, why nobody is accepted for a second."""
    if address.scheme == "udp":
        return await udp.listen(address, accept)
    context = (tls or TlsFiles()).for_listening() if address.scheme == "tls" else None
    return await tcp.listen(address, accept, context, half_open or HalfOpen(), refused, paused)


async def dial(address: Address, accept: Accept, tls: TlsFiles | None = None) -> Wire:
    """An open wire; a TransportError that says in one line why there is none."""
    if address.scheme == "udp":
        return await udp.dial(address, accept)
    context = (tls or TlsFiles()).for_dialling() if address.scheme == "tls" else None
    return await tcp.dial(address, accept, context)
