"""`connect` to brokers: its arguments checked, and a client made of them."""

from collections.abc import Sequence
from typing import Any

from holdfast.net.client import Client
from holdfast.net.settings import ClientSettings, renamed
from holdfast.net.setup import brokers_at, check_tls
from holdfast.protocol.hops.settings import Hops, HopSettings
from holdfast.protocol.order.settings import LatchSettings
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.recovery.srm.settings import SrmSettings
from holdfast.protocol.settings import Order, ProtocolSettings, RecoveryWord
from holdfast.wire.event_encoding import sendable_name


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
    **former: str | None,
) -> Client:
    """A client of the broker at this address, or of the first of several that answers; enter it with `async with`.

    With `recovery="end-to-end"`, or True, it gets back what the network has lost of events whose publishers have it
    too. With `order` an event waits while an earlier one of its publisher is likely to come ("fifo"), or until it has
    come or is lost ("strict"). With `hops="nack"` its link to a broker of the same hops repairs over UDP what it loses,
    and `losses` names the rest. With `hops="retransmission"`, or `durable=True`, for brokers that store events, `flush`
    returns when everything published is stored, and subscriptions outlive the process: the next one of this name gets
    what its application was not done with. `token` is a file. A client without a name gets one that its certificate or
    token allows. `sign` is a file with the key that signs what it publishes, and `verify` one with the keys of signers:
    events without a signature of theirs are refused. `digest_key` is a file with a key that clients share: others read
    nothing of events in what recovery tells. `private_key` and `authority` are former names of `key` and `ca`.
    """
    given = {"name": name, "certificate": certificate, "key": key, "ca": ca, "token": token, "settings": settings}
    given |= {"sign": sign, "verify": verify, "digest_key": digest_key}
    choices = {"recovery": recovery, "order": order, "hops": hops, "durable": durable}
    of = ClientSettings(**(given | choices | renamed(former, ClientSettings, "connect")))
    if name is not None:
        sendable_name(name, "client")
    protocol = settings or ProtocolSettings()
    brokers = brokers_at(address)
    check_tls(of.tls, brokers)
    of.signing.check_name(name)
    reliability: dict[str, Any] = {"guarantees": of.guarantees, "hops": of.hop_settings}
    return Client(brokers, name, of.tls, protocol, token=token, signing=of.signing, **reliability)
