"""A client of brokers, made of the settings that were given to `connect`."""

from collections.abc import Sequence

from holdfast.net.client import Client
from holdfast.net.settings import ClientSettings
from holdfast.net.setup import brokers_at, check_tls
from holdfast.protocol.settings import ProtocolSettings
from holdfast.wire.event_encoding import sendable_name


def broker_client(addresses: Sequence[str], of: ClientSettings) -> Client:
    """A client of the first broker of these that answers, after all that was given has been looked at."""
    if of.name is not None:
        sendable_name(of.name, "client")
    brokers = brokers_at(addresses)
    check_tls(of.tls, brokers)
    of.signing.check_name(of.name)
    return Client(
        brokers,
        of.name,
        of.tls,
        of.settings or ProtocolSettings(),
        token=of.token,
        signing=of.signing,
        guarantees=of.guarantees,
        hops=of.hop_settings,
    )
