"""How long a broker takes to start on this machine now: what a replica costs that is to be started.

A process that loads Python and the machine's libraries takes half a second on one machine and three on another, or on
the same one when it is busy. So it is measured before the run, while the other brokers are up, and not assumed.
"""

from time import monotonic

from holdfast.net.address import Address
from holdfast.net.live import NewHost
from holdfast.network.schema import Network


async def measured_start_us(network: Network, new_host: NewHost) -> int:
    """From asking for a broker until it listens; it is stopped again and takes part in nothing."""
    transport = network.transport
    began_s = monotonic()
    host = new_host("start-time", None, lambda wanted: None)
    await host.start(Address(transport.kind, transport.host, 0))
    took_s = monotonic() - began_s
    await host.stop()
    return round(took_s * 1e6)
