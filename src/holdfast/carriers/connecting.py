"""`holdfast.connect`: a client of Holdfast's brokers, or of a bus, by the address."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any, ParamSpec

from holdfast.carriers.addresses import bus_address, carrier_of, is_bus
from holdfast.carriers.client import BusClient
from holdfast.carriers.keeper import Keeper
from holdfast.carriers.stub import Body
from holdfast.language.lanes import Template
from holdfast.model.errors import InputError
from holdfast.net.address import parse_address
from holdfast.net.client import Client
from holdfast.net.connecting import broker_client
from holdfast.net.settings import ClientSettings, renamed
from holdfast.net.setup import parsed_condition
from holdfast.net.signing import UNSIGNED, Signing
from holdfast.net.sync import SyncClient
from holdfast.protocol.hops.settings import Hops, HopSettings
from holdfast.protocol.order.settings import LatchSettings
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.recovery.srm.settings import SrmSettings
from holdfast.protocol.settings import ClientReliability, Guarantees, Order, ProtocolSettings, RecoveryWord
from holdfast.wire.event_encoding import sendable_name

# A bus pushes nobody back: what a server has buffered when it dies is lost at once, and repaired while more comes. So
# publishers keep four times as many events as over brokers, and duplicates are recognised among as many.
_KEPT = 2**18
_KEPT_BYTES = 256 * 2**20

Given = ParamSpec("Given")


def connect(
    address: str | Sequence[str],
    *,
    name: str | None = None,
    certificate: str | None = None,
    key: str | None = None,
    ca: str | None = None,
    token: str | None = None,
    sign: str | None = None,
    verify: str | None = None,
    digest_key: str | None = None,
    settings: ProtocolSettings | None = None,
    recovery: bool | RecoveryWord | RecoverySettings | SrmSettings = "none",
    order: Order | LatchSettings = "none",
    hops: Hops | HopSettings = "basic",
    durable: bool = False,
    space: str = "holdfast",
    lanes: str = "",
    body: Body = "native",
    **former: str | None,
) -> Client:
    """A client of the broker or bus at this address, or of the first of several that answers; enter it with
    `async with`.

    With `recovery="end-to-end"`, or True, it gets back what the network has lost of events whose publishers have it
    too. With `order` an event waits while an earlier one of its publisher is likely to come ("fifo"), or until it has
    come or is lost ("strict"). With `hops="nack"` its link to a broker of the same hops repairs over UDP what it loses,
    and `losses` names the rest. With `hops="retransmission"`, or `durable=True`, for brokers that store events, `flush`
    returns when everything published is stored, and subscriptions outlive the process: the next one of this name gets
    what its application was not done with. `token` is a file. A client without a name gets one that its certificate or
    token allows. `sign` is a file with the key that signs what it publishes, and `verify` one with the keys of signers:
    events without a signature of theirs are refused. `digest_key` is a file with a key that clients share: others read
    nothing of events in what recovery tells. `private_key` and `authority` are former names of `key` and `ca`.

    On a bus (`nats://`, `mqtt://`, `redis://`, `amqp://`, `zenoh://`, `stomp://`) clients of one `space` reach each
    other. `lanes` is a template such as `plant.{site}.{kind}` for the subjects that events travel on. With
    `body="json"` other clients of the bus can read them. All clients of a space use the same three.
    """
    given = [address] if isinstance(address, str) else list(address)
    chosen: dict[str, Any] = {"name": name, "certificate": certificate, "key": key, "ca": ca, "token": token}
    chosen |= {"sign": sign, "verify": verify, "digest_key": digest_key, "settings": settings}
    chosen |= {"recovery": recovery, "order": order, "hops": hops, "durable": durable}
    chosen |= renamed(former, ClientSettings, "connect")
    if not any(map(is_bus, given)):
        if (space, lanes, body) != ("holdfast", "", "native"):
            for each in given:
                parse_address(each)  # which says what is wrong with a misspelt one
            raise InputError("space, lanes and body are for a bus, such as nats://127.0.0.1:4222")
        return broker_client(given, ClientSettings(**chosen))
    if not all(chosen[each] is None for each in ("certificate", "key", "ca", "token")):
        raise InputError("certificates and tokens are for Holdfast's brokers; a bus takes what its address says")
    of = ClientReliability(hops, recovery, order, durable)
    if of.hop_settings.hops != "basic":
        raise InputError(f'hops = "{of.hop_settings.hops}" is for Holdfast\'s brokers; over a bus use recovery')
    signing = Signing(sign, verify, digest_key)
    signing.check_name(name)
    return bus_client(given, name, settings, of.guarantees, space, lanes, body, signing)


def bus_client(
    addresses: Sequence[str],
    name: str | None,
    settings: ProtocolSettings | None,
    guarantees: Guarantees,
    space: str,
    lanes: str,
    body: Body,
    signing: Signing = UNSIGNED,
    first_seq: int | None = None,
) -> BusClient:
    """A client of a bus, after all that was given has been looked at."""
    if name is not None:
        sendable_name(name, "client")
    if body not in ("native", "json"):
        raise InputError(f'body is {body!r}; it can be "native" or "json"')
    found = [bus_address(each) for each in addresses]
    for each in found:
        carrier_of(each)
    Template("", space)  # which says what is wrong with it
    protocol = settings or replace(ProtocolSettings(), dedup_window=_KEPT)
    own = protocol, _roomier(guarantees), space, Template(lanes, space), body
    return BusClient(found, name, *own, first_seq=first_seq, signing=signing)


def keeper_of(
    address: str,
    condition: str,
    store: Path,
    keep_bytes: int,
    space: str,
    lanes: str,
    body: Body,
    report: Callable[[str], None] = lambda text: None,
) -> Keeper:
    """A keeper of the events that a condition describes on a bus; not started yet. `report` gets what it has to say."""
    text = str(parsed_condition(condition))
    promises = Guarantees(RecoverySettings())
    client = bus_client([address], None, None, promises, space, lanes, body, Signing(keeps=True))
    return Keeper(client, text, store, keep_bytes, space, carrier_of(bus_address(address)), report)


def _roomier(guarantees: Guarantees) -> Guarantees:
    """The defaults for a bus, where the user has not chosen."""
    recovery, order = guarantees.recovery, guarantees.order
    if recovery == RecoverySettings():
        recovery = replace(RecoverySettings(), kept_max=_KEPT, kept_bytes_max=_KEPT_BYTES)
    if order is not None and order == LatchSettings(order.mode):
        order = replace(order, held_per_source_max=_KEPT, held_max=2 * _KEPT)
    return replace(guarantees, recovery=recovery, order=order)


def _with_arguments_of(
    other: Callable[Given, Client],
) -> Callable[[Callable[..., SyncClient]], Callable[Given, SyncClient]]:
    """Gives a function the signature of another one, for people, editors and type checkers."""

    def given(function: Callable[..., SyncClient]) -> Callable[Given, SyncClient]:
        function.__signature__ = signature(other).replace(return_annotation=SyncClient)  # type: ignore[attr-defined]
        return function

    return given


@_with_arguments_of(connect)
def connect_sync(address: str | Sequence[str], **chosen: Any) -> SyncClient:
    """A client that is connected already; leave it with `with` or `close()`. It takes the arguments of `connect`."""
    return SyncClient(connect(address, **chosen))
