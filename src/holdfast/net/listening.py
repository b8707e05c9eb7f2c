"""Open all places where a broker listens: for brokers and clients of Holdfast, and for those of MQTT."""

from collections.abc import AsyncIterator, Callable, Mapping

from holdfast.net.address import MQTT_SCHEMES
from holdfast.net.arrivals import Arrivals
from holdfast.net.clock import Clock
from holdfast.net.committer import Committer
from holdfast.net.half_open import HalfOpen
from holdfast.net.journal import Note
from holdfast.net.mqtt_door import Door
from holdfast.net.mqtt_listener import listen_for_mqtt
from holdfast.net.mqtt_trust import DoorTrust
from holdfast.net.settings import NodeSettings
from holdfast.net.transport import listen
from holdfast.net.wire import Accept, Listener
from holdfast.protocol.store_changes import Change


async def listeners(
    settings: NodeSettings,
    accept: Accept,
    clock: Clock,
    taken: Mapping[str, tuple[int, int]],
    store: Committer[Change] | None,
    trust: DoorTrust,
    half_open: HalfOpen,
    arrivals: Arrivals,
    log: Callable[[Note], None],
) -> AsyncIterator[Listener]:
    """One after the other; a TransportError when a port is not to be had.

    `taken` says how far the broker's `store` has taken what each neighbour handed over to an earlier process.
    """
    door: Door | None = None
    about = settings.tls, half_open, arrivals.on_tls_refused, arrivals.on_paused
    for address in settings.listen:
        if address.scheme not in MQTT_SCHEMES:
            yield await listen(address, accept, *about)
            continue
        if door is None:  # for all of them: a client may come back another way
            door = Door(settings, accept, clock, taken, store, trust, log)
            await door.open()
        yield await listen_for_mqtt(address, door, *about)
