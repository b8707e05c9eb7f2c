"""Who a client of MQTT is, and what it may do: by the same gate and the same rights as every other client.

It shows the certificate of its connection, or a token: as its password, or as the data of extended authentication. Its
identifier is the name that it has to prove. The door checks that and vouches for the client to the broker that it is
part of. The door also asks about rights before the broker's own guard does, because MQTT wants an answer.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from secrets import token_hex
from urllib.parse import quote

from msgspec.structs import replace

from holdfast.books.rows import GUEST
from holdfast.language.parser import parse
from holdfast.model.event import Attributes
from holdfast.mqtt.packets import Connect
from holdfast.mqtt.reasons import BAD_AUTHENTICATION, NOT_AUTHORIZED, QUOTA_EXCEEDED, MqttError
from holdfast.mqtt.session import MqttSubscription
from holdfast.mqtt.subscribing import SubscriptionRefused
from holdfast.protocol.client_rights import publication_refused, subscription_denied
from holdfast.protocol.effects import Incident
from holdfast.trust.budget import Budgets, ConnectionBudget
from holdfast.trust.certificate import Certificate, certified
from holdfast.trust.enforcement import RightsInForce
from holdfast.trust.gate import Credentials, Gate, NotTrustedError
from holdfast.trust.identity import Principal
from holdfast.trust.token import own_name

_SAFE = ":/@!$&'()*+,;=?[]~^{}|<>#"  # the rest of printable characters is quoted, as is all that is not printable


@dataclass(frozen=True)
class Guest:
    """A client of MQTT that was let in."""

    name: str  # of its node
    identity: Principal
    credentials: Credentials
    assigned: str = ""  # the identifier that it was given, if it had none


class DoorTrust:
    def __init__(
        self, gate: Gate, rights: RightsInForce | None, budgets: Budgets, report: Callable[[Incident], None]
    ) -> None:
        self._gate = gate
        self._rights = rights
        self._budgets = budgets
        self.report = report
        self.on_change: Callable[[frozenset[str]], None] = lambda changed: None  # trust was read again

    # Who somebody is -----------------------------------------------------------------------------

    def admit(self, connect: Connect, certificate: Certificate) -> Guest:
        """Who a client is; a MqttError when it cannot prove that."""
        token = self._token_of(connect) if self._gate.takes_tokens else ""
        assigned = "" if connect.client_id else self._made_up(certificate, token)
        called = connect.client_id or assigned
        if self._gate.knows_clients and not certificate and not token:
            called = f"anonymous.{called}"
        name = GUEST + quote(called, safe=_SAFE)
        given = Credentials(name, "client", certificate, token, b"", (), called)
        return Guest(name, self._identity(given), given, assigned)

    def renew(self, guest: Guest, token: str) -> Guest:
        """The same client with another token; a MqttError when it is none, or that of another."""
        given = Credentials(guest.name, "client", {}, token, b"", (), guest.credentials.called)
        found = self._identity(given)
        if (found.name, found.groups) != (guest.identity.name, guest.identity.groups):
            raise MqttError(NOT_AUTHORIZED, f"its new token is for {found.name} in other groups; connect anew")
        return Guest(guest.name, found, given)

    def check(self, guest: Guest) -> str:
        """Why a client could not come in any more; empty when it could."""
        try:
            self._identity(guest.credentials)
        except MqttError as problem:
            return str(problem)
        return ""

    def _identity(self, given: Credentials) -> Principal:
        try:
            return self._gate.identity(given, ())
        except NotTrustedError as problem:
            raise MqttError(NOT_AUTHORIZED, str(problem)) from None

    def _token_of(self, connect: Connect) -> str:
        if "authentication_method" in connect.properties:
            shown: bytes = connect.properties.get("authentication_data", b"")
        else:
            shown = connect.password or b""
        return shown.decode("ascii", "replace")

    def _made_up(self, certificate: Certificate, token: str) -> str:
        own = certified(certificate).client_name if certificate else own_name(token)
        return f"auto-{token_hex(8)}" if own is None else f"{own}.{token_hex(8)}"

    def check_method(self, connect: Connect) -> None:
        """That extended authentication is of use here."""
        if "authentication_method" in connect.properties and not self._gate.takes_tokens:
            raise MqttError(BAD_AUTHENTICATION, "this broker has no keys for tokens")

    # What it may cost ----------------------------------------------------------------------------

    def check_room(self, guest: Guest) -> None:
        """That a client that is not here yet may have one more connection."""
        why = self._budgets.why_full(guest.identity)
        if why:
            raise MqttError(QUOTA_EXCEEDED, why)

    def budget(self, guest: Guest) -> ConnectionBudget:
        return self._budgets.of(guest.identity)

    # What it may do ------------------------------------------------------------------------------

    def seat(self, guest: Guest) -> None:
        """Its rights hold from now on."""
        if self._rights is not None:
            self._rights.set(guest.name, guest.identity)

    def check_publication(self, name: str, attributes: Attributes) -> None:
        """A MqttError when a client may not publish this."""
        why = "" if self._rights is None else self._rights.why_not(name, attributes)
        if why:
            incident = publication_refused(name, why)
            self.report(incident)
            raise MqttError(NOT_AUTHORIZED, incident.reason)

    def may_have(self, name: str, wanted: Iterable[MqttSubscription]) -> bool:
        """Whether a client may have all these subscriptions as they are."""
        return all(self._instead(name, each.condition) is None for each in wanted)

    def admitted(self, name: str, wanted: MqttSubscription) -> tuple[MqttSubscription, str]:
        """As much of a subscription as a client has a right to, and why no more; else a `SubscriptionRefused`."""
        instead = self._instead(name, wanted.condition)
        if instead is None:
            return wanted, ""
        incident = subscription_denied(name, wanted.condition, instead)
        self.report(incident)
        if not instead or wanted.group:  # all members of a group share its condition
            raise SubscriptionRefused(NOT_AUTHORIZED, incident.reason)
        return replace(wanted, condition=instead), incident.reason

    def _instead(self, name: str, condition: str) -> str | None:
        """What a client may have instead of a condition, empty when nothing; None when it may have it."""
        if self._rights is None:
            return None
        wanted = parse(condition)
        admitted = self._rights.admitted(name, wanted)
        return None if admitted == wanted else str(admitted) if admitted.filters else ""
