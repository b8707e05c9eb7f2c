"""What is wrong with the set-up of a broker or a client, found before anything is started.

Each complaint is an InputError of one line that says where, what is expected and what to write instead. What only the
running system can tell (a port in use, a name that somebody else has) is told when it is found out.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from secrets import token_hex

from holdfast.language.parser import parse
from holdfast.language.subscription import Subscription
from holdfast.model.errors import InputError
from holdfast.model.tls_settings import TlsSettings
from holdfast.model.warn_once import warn_once
from holdfast.mqtt.settings import MqttSettings
from holdfast.mqtt.topics import is_filter, is_name, is_reserved
from holdfast.net.address import ENCRYPTED, MQTT_SCHEMES, Address, parse_address
from holdfast.net.settings import NodeSettings
from holdfast.trust.certificate import own_client_name
from holdfast.trust.token import own_name, read_token
from holdfast.wire.event_encoding import sendable_name


def brokers_at(address: str | Sequence[str]) -> list[Address]:
    """The addresses of brokers to dial."""
    given = list(address) if isinstance(address, Sequence) and not isinstance(address, str) else [address]
    if not given:
        raise InputError("connect needs the address of a broker, such as tcp://127.0.0.1:7001")
    return [parse_address(each, to_dial=True) for each in given]


def parsed_condition(text: str) -> Subscription:
    """A condition that has been read; whoever subscribes to what can never match is warned, once for each."""
    condition = parse(text)
    if condition.warnings:
        warn_once(f"subscription to {text!r}: {'; '.join(condition.warnings)}")
    return condition


def made_up_name(tls: TlsSettings | None, token: str | None) -> str:
    """A name for a client without one, below that of its certificate or token."""
    own = own_client_name(tls.certificate) if tls is not None and tls.certificate is not None else None
    if own is None and token is not None:
        own = own_name(read_token(token))
    return f"client-{token_hex(6)}" if own is None else f"{own}.{token_hex(6)}"


def check_tls(tls: TlsSettings | None, addresses: Iterable[Address]) -> None:
    """Who names a certificate and then connects in plain text has made a mistake."""
    given = [] if tls is None else [name for name in ("certificate", "key", "ca") if getattr(tls, name) is not None]
    if given and not any(each.scheme in ENCRYPTED for each in addresses):
        raise InputError(f"{' and '.join(given)} given, but no address begins with tls://: nothing would be encrypted")


def check_broker(settings: NodeSettings) -> None:
    sendable_name(settings.name, "broker")
    check_tls(settings.tls, (*settings.listen, *settings.peers.values()))
    _check_once(settings.listen, f"{settings.name} listens")
    check_peers(settings.name, settings.listen, settings.peers)
    _check_mqtt(settings.mqtt)
    if settings.history is not None:
        settings.history.wanted()


def _check_mqtt(mqtt: MqttSettings) -> None:
    if not is_name(mqtt.topic) or is_reserved(mqtt.topic):
        example = "such as events/{source}"
        raise InputError(f"the topic {mqtt.topic!r} for native events: expected a topic without + and #, {example}")
    for each in mqtt.json:
        if not is_filter(each):
            raise InputError(f"{each!r} is no topic filter; write it for instance as sensors/+/json or sensors/#")


def check_peers(own: str, listen: Sequence[Address], peers: Mapping[str, Address]) -> None:
    """The brokers that a broker is to dial."""
    there: dict[Address, str] = {}
    for name, address in peers.items():
        sendable_name(name, "peer")
        if name == own:
            raise InputError(f"peer {name}: this is the broker's own name; a broker does not dial itself")
        if not address.port:
            raise InputError(f"peer {name}: port 0 of {address} cannot be dialled; write the port that it listens on")
        if address.scheme in MQTT_SCHEMES:
            raise InputError(f"peer {name}: {address} is for MQTT clients; brokers dial tcp://, tls:// or udp://")
        if address in listen:
            raise InputError(f"peer {name}: {address} is the address of {own} itself")
        if there.setdefault(address, name) != name:
            raise InputError(
                f"peers {there[address]} and {name} have the same address, {address}; a broker has one name"
            )


def check_places(listen: Sequence[Address], metrics: Address | None) -> None:
    """That metrics are not served where the broker listens."""
    places = [(each.host, each.port) for each in listen if each.scheme != "udp"]
    if metrics is not None and metrics.port and (metrics.host, metrics.port) in places:
        raise InputError(f"--metrics {metrics.host}:{metrics.port}: the broker itself listens there; use another port")


def _check_once(addresses: Sequence[Address], what: str) -> None:
    used: dict[tuple[bool, str, int], Address] = {}
    for each in addresses:
        place = each.scheme == "udp", each.host, each.port
        if each.port and place in used:
            raise InputError(f"{what} on {used[place]} and on {each}, which are the same port; leave one out")
        used[place] = each


def finite(value: float | None, option: str, unit: str) -> None:
    """For numbers of the command line, where nan and inf can be written."""
    if value is not None and not (isfinite(value) and value > 0):
        raise InputError(f"{option} {value:g}: it must be a finite number of {unit} above 0")
