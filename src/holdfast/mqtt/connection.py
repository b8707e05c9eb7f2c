"""One connection of a client, from CONNECT to its end: packets in, effects out.

The machine keeps the rules of the protocol: what may follow what, limits that both ends have named, aliases, answers.
It asks its driver for what only a broker can do (`Open`, `Take`, `Want`, `Unwant`), which calls back when that is
done. It has no socket, clock or random numbers.
"""

from collections import deque
from collections.abc import Sequence

import msgspec

from holdfast.mqtt.aliases import ReceivedAliases, SentAliases
from holdfast.mqtt.decoding import AUTH, CONNACK, CONNECT, check_flags, decode_connect_untrusted, decode_untrusted
from holdfast.mqtt.encoding import encode, encode_ack
from holdfast.mqtt.packets import (
    AckKind,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    PublishAck,
    PublishPacket,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
)
from holdfast.mqtt.properties import IDENTIFIER, NONE, Properties
from holdfast.mqtt.reasons import (
    BAD_AUTHENTICATION,
    CLIENT_ID_INVALID,
    ID_NOT_FOUND,
    MAX_CONNECT_TIME,
    NO_SUBSCRIPTION,
    NOT_AUTHORIZED,
    OLD_VERSION,
    QUOTA_EXCEEDED,
    RECEIVE_MAXIMUM,
    SERVER_UNAVAILABLE,
    SUCCESS,
    UNSPECIFIED,
    UNSUPPORTED_VERSION,
    WITH_WILL,
    MqttError,
    malformed,
    old_code,
    protocol_error,
)
from holdfast.mqtt.replays import EventKey, Round, is_new
from holdfast.mqtt.session import IDS_MAX, MqttSession, MqttSubscription
from holdfast.mqtt.settings import MqttSettings
from holdfast.mqtt.subscribing import Asking, SubscriptionRefused, asking_of, wanted_of
from holdfast.mqtt.topics import is_reserved

NEVER_S = 0xFFFFFFFF  # the expiry of a session that is to last
_UNEXPECTED = (9, 11, 13)  # only brokers send these
TOKEN_METHOD = "JWT"  # of extended authentication: its data is a token
_RENEW = 0x19  # the reason of an AUTH with a new token
_TOLD = (NOT_AUTHORIZED, QUOTA_EXCEEDED, MAX_CONNECT_TIME)  # with words, when we end a connection
_PACKET_BYTES = 100  # of an answer, besides its reason string


class Write(msgspec.Struct, frozen=True):
    """Send these bytes."""

    data: bytes


class Open(msgspec.Struct, frozen=True):
    """Find or begin the client's session; then call `on_session`."""

    connect: Connect
    expiry_s: int


class Take(msgspec.Struct, frozen=True):
    """PublishPacket this; with a packet identifier, call `on_stored` when the broker has it, or `on_not_stored`."""

    publish: PublishPacket


class Want(msgspec.Struct, frozen=True):
    """Subscribe to these, as `wanted` reads each, and when the broker knows, call `on_wanted`."""

    packet_id: int
    asked: tuple[Asking | SubscriptionRefused, ...]


class Unwant(msgspec.Struct, frozen=True):
    """HangUp these subscriptions."""

    names: tuple[str, ...]


class Renew(msgspec.Struct, frozen=True):
    """The client shows another token; call `on_renewed` if it is a good one, and `end` if not."""

    token: str


class Done(msgspec.Struct, frozen=True):
    """The client has these events, or does not want them: they need not be kept for it."""

    tokens: tuple[int, ...]


class Undeliverable(msgspec.Struct, frozen=True):
    """The client does not get this event, which need not be kept for it."""

    token: int
    why: str


class HangUp(msgspec.Struct, frozen=True):
    """Close the connection; the client's will is published unless it took leave."""

    why: str
    will: bool = True


Effect = Write | Open | Take | Want | Unwant | Renew | Done | Undeliverable | HangUp


class Connection:
    def __init__(self, settings: MqttSettings) -> None:
        self._settings = settings
        self.connect: Connect | None = None
        self.session: MqttSession | None = None
        self.expiry_s = 0  # of the session, once the connection is gone
        self.keep_alive_s = 0  # the longest silence that was agreed upon; 0: any
        self._version = 4
        self._limit = 0  # on the packets that the client takes, in bytes; 0: none
        self._in_flight_max = settings.in_flight_max
        self._storing: set[int] = set()  # identifiers of publications of quality 1 that the broker does not have yet
        self._received = ReceivedAliases(settings.alias_max)
        self._sent = SentAliases(0)
        self._again: deque[int] = deque()  # identifiers of what is to be sent again, in their order
        self._ended = False

    def check_first_untrusted(self, first: int) -> None:
        """The first byte of a packet, before the rest has come."""
        kind = first >> 4
        if self.connect is None:
            if kind != CONNECT:
                raise malformed(f"a packet of type {kind} before CONNECT")
            return
        if kind in (0, CONNECT, CONNACK) or (kind == 14 and first & 0x0F) or (kind == AUTH and not self._method):
            raise protocol_error(f"a packet of type {kind} after CONNECT")
        check_flags(first)
        if kind in _UNEXPECTED:
            raise protocol_error(f"a packet of type {kind} from a client")

    def on_packet_untrusted(self, first: int, body: bytes) -> list[Effect]:
        """What follows from a packet; a MqttError for `on_error` when it may not be."""
        if self._ended:
            return []
        if self.connect is None:
            return self._on_connect(decode_connect_untrusted(first, body))
        packet = decode_untrusted(first, body, self._version)
        match packet:  # the most frequent ones first
            case PublishPacket():
                return self._on_publish(packet)
            case PublishAck():
                return self._on_ack(packet)
            case Subscribe():
                return self._on_subscribe(packet)
            case Unsubscribe():
                return self._on_unsubscribe(packet)
            case Pingreq():
                return self._answer(Pingresp())
            case Disconnect():
                return self._on_disconnect(packet)
            case Auth():
                return self._on_auth(packet)
            case _:
                raise protocol_error(f"{type(packet).__name__} from a client")

    def on_error(self, problem: MqttError) -> list[Effect]:
        """What to say to a client that broke a rule."""
        if self._ended:
            return []
        if self.connect is None:
            return self._refuse(problem.reason, str(problem), problem.version)
        return self.end(problem.reason, str(problem))

    def end(self, reason: int, why: str) -> list[Effect]:
        """Take leave of the client."""
        if self._ended:
            return []
        if self.connect is not None and self.session is None:  # it waits for CONNACK, and understands nothing else
            return self.refuse(SERVER_UNAVAILABLE, why)
        said: list[Effect] = []
        if self._version == 5 and self.connect is not None:
            said = self._answer(Disconnect(reason, self._why(why) if reason in _TOLD else NONE))
        self._ended = True
        return [*said, HangUp(why)]

    # CONNECT -------------------------------------------------------------------------------------

    def _refuse(self, reason: int, why: str, version: int | None, told: Properties = NONE) -> list[Effect]:
        self._ended = True
        code = reason if version == 5 or reason == OLD_VERSION else old_code(reason)
        if version is None or code is None:
            return [HangUp(why, will=False)]
        written = encode(Connack(code, properties=told), 5 if reason == UNSUPPORTED_VERSION else version)
        return [Write(written), HangUp(why, will=False)]

    def refuse(self, reason: int, why: str) -> list[Effect]:
        """The broker does not let the client in."""
        return self._refuse(reason, why, self._version, self._why(why))

    def _on_connect(self, connect: Connect) -> list[Effect]:
        self._version = connect.version
        self._limit = connect.properties.get("maximum_packet_size", 0)
        method = connect.properties.get("authentication_method", TOKEN_METHOD)
        if method != TOKEN_METHOD:
            raise MqttError(BAD_AUTHENTICATION, f"extended authentication is by {TOKEN_METHOD}, not {method}", 5)
        if not connect.client_id and (connect.version == 3 or (connect.version == 4 and not connect.clean)):
            raise MqttError(CLIENT_ID_INVALID, "a session that lasts needs a client identifier", connect.version)
        if connect.will is not None and is_reserved(connect.will.topic):
            raise MqttError(NOT_AUTHORIZED, f"a will for {connect.will.topic}", 5 if connect.version == 5 else None)
        given = connect.properties
        self._in_flight_max = min(self._in_flight_max, given.get("receive_maximum", IDS_MAX))
        self._sent = SentAliases(given.get("topic_alias_maximum", 0))
        asked_s = given.get("session_expiry_interval", 0)
        if connect.version < 5:
            asked_s = 0 if connect.clean else NEVER_S
        self.expiry_s = min(asked_s, self._settings.session_s_max)
        longest = self._settings.keep_alive_s_max
        self.keep_alive_s = connect.keep_alive
        if connect.version == 5 and not 0 < connect.keep_alive <= longest:
            self.keep_alive_s = longest
        self.connect = connect
        return [Open(connect, self.expiry_s)]

    def on_session(self, session: MqttSession, present: bool, assigned: str = "") -> list[Effect]:
        """The client's session, which it goes on with if it was there before."""
        assert self.connect is not None
        self.session = session
        properties: dict[str, object] = {}
        if self._version == 5:
            properties = {
                "receive_maximum": self._settings.receive_max,
                "maximum_packet_size": self._settings.packet_bytes_max,
                "topic_alias_maximum": self._settings.alias_max,
            }
            if self._method:
                properties["authentication_method"] = self._method
            if assigned:
                properties["assigned_client_identifier"] = assigned
            if self.keep_alive_s != self.connect.keep_alive:
                properties["server_keep_alive"] = self.keep_alive_s
            if self.expiry_s != self.connect.properties.get("session_expiry_interval", 0):
                properties["session_expiry_interval"] = self.expiry_s
        written = encode(Connack(SUCCESS, present, properties), self._version)
        if self._limit and len(written) > self._limit:
            self._ended = True
            return [HangUp("the client takes no packet as large as CONNACK")]
        released, again = session.resume()
        self._again += again
        effects: list[Effect] = [Write(written)]
        for packet in released:
            effects += self._answer(packet)
        return effects + self._send_again()

    def _send_again(self) -> list[Effect]:
        """As much as the client takes at a time of what it has not acknowledged over the connection before."""
        assert self.session is not None
        effects: list[Effect] = []
        while self._again and self._has_window:
            number = self._again.popleft()
            packet = self.session.sent_again(number)
            if packet is None:
                continue
            if self._too_large(packet):
                effects.append(Undeliverable(self.session.done(number), self._why_too_large(packet)))
            else:
                effects += self._answer(packet)
        return effects

    # Publications of the client ------------------------------------------------------------------

    def _on_publish(self, publish: PublishPacket) -> list[Effect]:
        assert self.session is not None
        if IDENTIFIER in publish.properties:
            raise protocol_error("a subscription identifier in a publication of a client")
        publish = self._received.resolve_untrusted(publish)
        number, qos = publish.packet_id, publish.qos
        if is_reserved(publish.topic):
            return self._acknowledge(publish, NOT_AUTHORIZED, "") if qos else []
        if qos == 2 and not self.session.take(publish):
            return self._answer(PublishAck("pubrec", number)) if self.session.is_stored(number) else []
        if qos:
            if number in self._storing:
                return []  # its acknowledgement is about to come
            if qos == 1:
                self._storing.add(number)
            in_use = len(self._storing) + self.session.unreleased
            if self._version == 5 and in_use > self._settings.receive_max:
                raise MqttError(RECEIVE_MAXIMUM, f"more than {self._settings.receive_max} unacknowledged publications")
        return [Take(publish)]

    def on_stored(self, publishes: Sequence[PublishPacket]) -> list[Effect]:
        """The broker has these publications."""
        session, storing, number = self.session, self._storing, 0
        assert session is not None
        written = bytearray()
        for each in publishes:
            number = each.packet_id
            if each.qos == 2:
                session.on_stored(number)
            else:
                storing.discard(number)
            written += encode_ack("puback" if each.qos == 1 else "pubrec", number)
        return [Write(bytes(written))]

    def on_not_stored(self, publish: PublishPacket, reason: int, why: str) -> list[Effect]:
        """The broker does not take it."""
        assert self.session is not None
        self._storing.discard(publish.packet_id)
        if publish.qos == 2:
            if reason < 0x80:
                self.session.on_stored(publish.packet_id)
            elif self._version == 5:
                self.session.release(publish.packet_id)
        return self._acknowledge(publish, reason, why) if publish.qos else []

    def _acknowledge(self, publish: PublishPacket, reason: int, why: str) -> list[Effect]:
        properties = self._why(why)
        kind: AckKind = "puback" if publish.qos == 1 else "pubrec"
        return self._answer(PublishAck(kind, publish.packet_id, reason, properties))

    def _why(self, why: str) -> Properties:
        """Why something did not work, if the client wants to read that, and takes a packet as large.

        In one line: libmosquitto takes a control character for a broken packet, and connects again and again.
        """
        why = "; ".join(line.strip() for line in why.splitlines() if line.strip(" ^"))
        wants = self.connect is None or self.connect.properties.get("request_problem_information", 1) == 1
        fits = not self._limit or len(why.encode()) + _PACKET_BYTES <= self._limit
        return {"reason_string": why} if why and wants and fits else NONE

    def _on_ack(self, ack: PublishAck) -> list[Effect]:
        assert self.session is not None
        if ack.kind == "pubrel":
            found = self.session.release(ack.packet_id)
            return self._answer(PublishAck("pubcomp", ack.packet_id, SUCCESS if found else ID_NOT_FOUND))
        packets, tokens = self.session.on_ack(ack)
        effects: list[Effect] = []
        for packet in packets:
            effects += self._answer(packet)
        if self._again:
            effects += self._send_again()
        return [*effects, Done(tuple(tokens))] if tokens else effects

    # Subscriptions -------------------------------------------------------------------------------

    def _on_subscribe(self, packet: Subscribe) -> list[Effect]:
        asked: list[Asking | SubscriptionRefused] = []
        for each in packet.asked:
            try:
                asked.append(asking_of(packet, each, self._version))
            except SubscriptionRefused as refused:
                asked.append(refused)
        return [Want(packet.packet_id, tuple(asked))]

    def wanted(self, asking: Asking | SubscriptionRefused) -> MqttSubscription:
        """One of a `Want`, read; a `SubscriptionRefused` when it is not to be had.

        A packet may have any number of them, with conditions that take tens of milliseconds each, so the driver asks
        for one at a time.
        """
        if isinstance(asking, SubscriptionRefused):
            raise asking
        return wanted_of(asking, self._version, self._settings.topic)

    def on_wanted(self, packet_id: int, reasons: Sequence[int], text: str) -> list[Effect]:
        """What was decided about each of a `Want`, and why some were refused."""
        if self._version < 5:
            reasons = [min(each, UNSPECIFIED) for each in reasons]
        return self._answer(Suback(packet_id, tuple(reasons), self._why(text)))

    def _on_unsubscribe(self, packet: Unsubscribe) -> list[Effect]:
        assert self.session is not None
        known = self.session.subscriptions
        reasons = tuple([SUCCESS if each in known else NO_SUBSCRIPTION for each in packet.filters])
        return [Unwant(packet.filters), *self._answer(Unsuback(packet.packet_id, reasons))]

    # To the client -------------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether one more event may be delivered."""
        return not self._ended and not self._again and self._has_window

    @property
    def _has_window(self) -> bool:
        return self.session is not None and self.session.under_way < self._in_flight_max

    def deliver(
        self,
        packet: PublishPacket,
        wanted: list[MqttSubscription],
        token: int,
        key: EventKey,
        round_: Round | None = None,
    ) -> list[Effect]:
        """An event for some of the client's subscriptions, as one packet; a retained one that is replayed says so."""
        assert self.session is not None
        if not wanted:
            return [Done((token,))]
        first, several = wanted[0], len(wanted) > 1
        qos = min(packet.qos, max([each.asked.qos for each in wanted]) if several else first.asked.qos)
        retain = packet.retain and (not is_new(key) or any([each.asked.as_published for each in wanted]))
        properties: Properties = NONE
        if self._version == 5:
            properties = packet.properties
            identifiers = [each.identifier for each in wanted if each.identifier]
            if identifiers:
                properties = {**properties, IDENTIFIER: identifiers}
        packet = PublishPacket(packet.topic, packet.payload, qos, retain, properties=properties)
        if self._too_large(packet):
            return [Undeliverable(token, self._why_too_large(packet))]
        if not qos:
            return [*self._answer(packet), Done((token,))]
        numbered, done = self.session.number(packet, token, key, bool(first.group), round_)
        if done:
            return [Done((token,))]
        if numbered is None:
            return []
        # One of quality 1 may itself come again, ahead of those that are awaited: what was sent of it is not noted.
        if numbered.duplicate or not is_new(key) or qos < 2:
            return self._answer(numbered)
        return [*self.on_given_up(self.session.give_up_awaited()), *self._answer(numbered)]

    def on_given_up(self, released: list[PublishAck]) -> list[Effect]:
        """These do not come again: the client is to forget their identifiers."""
        return [effect for packet in released for effect in self._answer(packet)]

    def _too_large(self, packet: PublishPacket) -> bool:
        return bool(self._limit) and len(encode(packet, self._version)) + 2 * (packet.qos > 0) > self._limit

    def _why_too_large(self, packet: PublishPacket) -> str:
        return f"an event of {packet.topic[:80]} is larger than the {self._limit:,} bytes that it takes"

    def _answer(self, packet: Packet) -> list[Effect]:
        if self._version == 5 and isinstance(packet, PublishPacket):
            packet = self._sent.shorten(packet)
        return [Write(encode(packet, self._version))]

    # Extended authentication ---------------------------------------------------------------------

    @property
    def _method(self) -> str:
        """Of extended authentication; empty: there is none on this connection."""
        given = {} if self.connect is None else self.connect.properties
        return str(given.get("authentication_method", ""))

    def _on_auth(self, packet: Auth) -> list[Effect]:
        if packet.reason != _RENEW or packet.properties.get("authentication_method") != self._method:
            raise protocol_error("an AUTH that does not renew the authentication of this connection")
        return [Renew(packet.properties.get("authentication_data", b"").decode("ascii", "replace"))]

    def on_renewed(self) -> list[Effect]:
        return self._answer(Auth(SUCCESS, {"authentication_method": self._method}))

    # The end -------------------------------------------------------------------------------------

    def _on_disconnect(self, packet: Disconnect) -> list[Effect]:
        asked_s = packet.properties.get("session_expiry_interval")
        if asked_s is not None:
            if asked_s and not self.expiry_s:
                raise protocol_error("a session that was to end cannot be made to last")
            self.expiry_s = min(asked_s, self._settings.session_s_max)
        self._ended = True
        return [HangUp("the client disconnects", will=packet.reason == WITH_WILL)]
