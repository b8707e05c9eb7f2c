"""The stub broker: stands for the bus, inside the client's process, so that the client's machines need not know of it.

It takes what the client sends to its broker: events become messages on lanes, control messages go to lanes of their
own, conditions become the lanes that cover them. What comes from the bus it hands on as a broker would, with statements
about what has come where that is proven. A machine: no I/O, no clock.

A statement of the client itself, "all was sent", holds on a link that loses nothing, and not here: the bus may lose any
message. So each states what is in it, and nothing of numbers that travelled in others; statements alone are dropped.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec
from msgspec import Raw

from holdfast.carriers.bus_format import CarriedEvents, Control, control_payload, events_payload, read_untrusted
from holdfast.carriers.carrier import BusMessage
from holdfast.carriers.json_body import Read, json_message, read_json_untrusted
from holdfast.carriers.lane_accounts import LaneAccounts
from holdfast.carriers.lane_book import LaneBook
from holdfast.carriers.selectors import headers_of, selector_of
from holdfast.language.lanes import (
    Lane,
    Pattern,
    Template,
    exactly,
    is_exact,
    pattern_matches,
    without_control,
    without_covered,
)
from holdfast.language.parser import parse
from holdfast.model.encoded import array_head
from holdfast.model.errors import PeerError
from holdfast.model.event import RESERVED
from holdfast.model.messages import (
    TABLES,
    AttributeValue,
    Batch,
    Deliver,
    Delta,
    Heartbeat,
    Message,
    Publication,
    Publish,
    Snapshot,
    with_statement,
)
from holdfast.protocol.recovery.control import CONTROL_SEQ, KIND, LIFETIME, OF, SEQ, TIME, address_of
from holdfast.protocol.tables import ReceivedTable
from holdfast.wire.codec import count_in, decode_frame_untrusted, encode_message, framed

Body = Literal["native", "json"]
PLAIN = "~bus"  # the source of what plain clients publish: numbered here as it comes, and at best effort

_MARKS = frozenset((KIND, OF, SEQ, TIME, LIFETIME))
_raws = msgspec.msgpack.Decoder(list[Raw]).decode
_fields = _raws  # of a message, the first is what it is
_SEQS, _SINCE, _UPTO = (Batch.__struct_fields__.index(each) + 1 for each in ("seqs", "since", "upto"))
_value, _packed = msgspec.msgpack.Decoder().decode, msgspec.msgpack.Encoder().encode
_KNOWN_LANES_MAX = 10_000  # lanes of others of which it is remembered whether they are ours: a megabyte


class LanesWanted(NamedTuple):
    """Subscribe to these lanes and leave those; when that is done, `on_lanes` with the summary of what is wanted."""

    add: tuple[Pattern, ...]
    drop: tuple[Pattern, ...]
    summary: tuple[tuple[int, int], ...]
    selector: str = ""  # of events, where the bus has selectors


class BusTerms(NamedTuple):
    """What all clients of a space agree on, and what the bus can do."""

    space: str
    template: Template
    body: Body
    has_headers: bool
    prefixes: bool
    selects: bool = False  # the bus has selectors, and each message one event


class StubBroker:
    def __init__(self, client: str, terms: BusTerms, book: LaneBook, recovers: bool, first_plain: int) -> None:
        self.client = client
        self._terms = terms
        self._book = book  # of the client, over all connections
        self._recovers = recovers
        self._one_lane = not terms.template.attributes
        self._lane: Lane = terms.template.lane({}) if self._one_lane else ()
        root = f"{RESERVED}{terms.space}"
        self._to_all: Lane = (root, "all")
        self._at = (root, "at")
        self.own_lane: Lane = (*self._at, address_of(client)[1:])
        self._own = exactly(self.own_lane)
        self._tables = {table: ReceivedTable() for table in TABLES}
        self._summary: tuple[tuple[int, int], ...] = ((0, 0), (0, 0))  # of what the bus has been told
        self._patterns: tuple[Pattern, ...] = ()  # of events
        self._subscribed: dict[Pattern, None] = {}  # these, and those of control messages
        self._is_ours: dict[str, bool] = {}
        self._selector = ""  # what the bus holds back has gaps that are no losses
        self._accounts = LaneAccounts()
        self._next_plain = first_plain
        self.bad = 0  # messages of the bus that were not acceptable

    # What the client sends -----------------------------------------------------------------------

    def on_client(self, frame: bytes) -> list[BusMessage | LanesWanted]:
        """A frame of messages of the client to its broker."""
        actions: list[BusMessage | LanesWanted] = []
        others: list[bytes] = []
        raws = [bytes(each) for each in _raws(memoryview(frame)[2:])]
        for at, raw in enumerate(raws):
            kind = raw[2:5]
            if kind == b"run":
                actions += self._on_batch(raw)
            elif kind == b"pub":
                actions += self._on_publish(raw, begins=any(map(_states_a_beginning, raws[at + 1 : at + 2])))
            else:
                others.append(raw)
        return actions + self._on_tables(others) if others else actions

    def _on_batch(self, raw: bytes) -> list[BusMessage]:
        if not count_in(raw):
            return []
        if self._one_lane and self._terms.body == "native":  # without taking it apart
            return [BusMessage(self._lane, events_payload((self._restated(raw),)))]
        (batch,) = decode_frame_untrusted(framed((raw,)))
        assert isinstance(batch, Batch)
        return self._on_events(batch.publications(), begins=batch.since == 1)

    def _restated(self, raw: bytes) -> bytes:
        """A batch that states nothing of what travelled before it in messages of its own."""
        fields = _fields(raw)
        seqs, since, upto = map(_value, (fields[_SEQS], fields[_SINCE], fields[_UPTO]))
        self._book.leave(seqs[0], seqs[-1], begins=since == 1)
        whole_since = self._book.since(self._lane, seqs)
        if not since or since >= whole_since or since > upto:
            return raw
        return b"".join((array_head(len(fields)), *fields[:_SINCE], _packed(whole_since), *fields[_SINCE + 1 :]))

    def _on_publish(self, raw: bytes, begins: bool) -> list[BusMessage]:
        (publish,) = decode_frame_untrusted(framed((raw,)))
        assert isinstance(publish, Publish)
        publication = publish.publication
        if publication.seq == CONTROL_SEQ:
            return self._on_control(publication)
        return self._on_events([publication], begins)

    def _on_events(self, publications: list[Publication], begins: bool) -> list[BusMessage]:
        """Events lane by lane; `begins`: the client has published nothing before them."""
        self._book.leave(publications[0].seq, publications[-1].seq, begins)
        by_lane: dict[Lane, list[Publication]] = {}
        for each in publications:
            by_lane.setdefault(self._terms.template.lane(each.attributes), []).append(each)
        messages: list[BusMessage] = []
        for lane, events in by_lane.items():
            if self._terms.body == "json":
                for each in events:
                    since = self._book.since(lane, (each.seq,))
                    message = json_message(lane, each, since, self._terms.has_headers)
                    if self._terms.selects:
                        message = message._replace(headers={**message.headers, **headers_of(each.attributes)})
                    messages.append(message)
                continue
            since = self._book.since(lane, [each.seq for each in events])
            messages.append(BusMessage(lane, events_payload(_encoded(events, since))))
        return messages

    def _on_control(self, publication: Publication) -> list[BusMessage]:
        attributes = publication.attributes
        if attributes.get(KIND) == "d" and OF in attributes:  # a digest for all who follow us
            return [BusMessage(self._to_all, control_payload(publication, self._book.layout()))]
        payload = control_payload(publication)
        if SEQ in attributes:  # a repair for all whom it matches
            return [BusMessage(self._to_all, payload)]
        marked = [name for name, value in attributes.items() if value is True and name not in _MARKS]
        return [BusMessage((*self._at, name[1:]), payload) for name in marked if name.startswith(RESERVED)]

    # What the client wants -----------------------------------------------------------------------

    def _on_tables(self, others: Iterable[bytes]) -> list[BusMessage | LanesWanted]:
        changed = False
        for message in decode_frame_untrusted(framed(list(others))):
            if isinstance(message, Delta | Snapshot):
                table = self._tables[message.table]
                table.apply(message, *table.change_by(message))
                changed = True
        return [self._wanted()] if changed else []

    def _wanted(self) -> LanesWanted:
        conditions = [parse(each) for each in self._tables["subscriptions"].conditions]
        found: dict[Pattern, None] = {}
        for condition in conditions:
            covering = self._terms.template.covering(without_control(condition), self._terms.prefixes)
            found.update(dict.fromkeys(covering.patterns))
        self._patterns = without_covered(found)
        if self._terms.selects:
            self._selector = selector_of(conditions)
        wanted = dict.fromkeys(self._patterns)
        if self._recovers or self._patterns:
            wanted[self._own] = None
        if self._recovers and self._patterns:
            wanted[exactly(self._to_all)] = None
        add = tuple(each for each in wanted if each not in self._subscribed)
        drop = tuple(each for each in self._subscribed if each not in wanted)
        self._subscribed = wanted
        self._is_ours.clear()
        return LanesWanted(add, drop, tuple(self._tables[table].summary for table in TABLES), self._selector)

    def on_lanes(self, wanted: LanesWanted) -> Heartbeat:
        """The bus has been told; so the client learns that it has."""
        self._summary = wanted.summary
        return self.heartbeat()

    @property
    def subscribes(self) -> bool:
        """Whether events are to come for the client."""
        return bool(self._patterns)

    def heartbeat(self) -> Heartbeat:
        return Heartbeat(0, self._summary)

    # What comes from the bus ---------------------------------------------------------------------

    def on_bus(self, message: BusMessage) -> list[Message]:
        """The same as a broker would say it. What is not acceptable is counted."""
        try:
            found = read_untrusted(message.payload)
            if isinstance(found, CarriedEvents):
                if message.lane == self.own_lane:  # for us alone: a keeper answers
                    return [*found.messages]
                return self._as_stated(found.messages)
            if isinstance(found, Control):
                return self._from_control(found)
            return self._from_json(message)
        except PeerError:
            self.bad += 1
            return []

    @property
    def _states_all(self) -> bool:
        """Whether what a lane states is about all that we want."""
        if self._selector:
            return False
        return self._one_lane or (len(self._patterns) == 1 and is_exact(self._patterns[0]))

    def _as_stated(self, messages: list[Deliver | Batch]) -> list[Message]:
        if self._one_lane and not self._selector:
            return [*messages]
        strips = not self._states_all
        stated: list[Message] = []
        for each in messages:
            if isinstance(each, Deliver):
                self._accounts.on_events(each.publication.source, (each.publication.seq,))
            elif each.seqs:
                self._accounts.on_events(each.source, each.seqs)
                each = with_statement(each, 0, 1, 0) if each.since and strips else each
            elif strips:
                continue
            stated.append(each)
        return stated

    def _from_control(self, control: Control) -> list[Message]:
        publication, layout = control.publication, control.layout
        if layout is None or self._one_lane:
            return [Deliver(publication)]
        source = publication.source
        ranges = self._accounts.on_layout(source, layout, self._ours)
        if ranges is None:
            return []  # it has had nothing for us
        stated: list[Message] = [Batch((), source, (), (), (), 0, first, last) for first, last in ranges]
        return [*stated, Deliver(publication)]

    def _ours(self, lane: str) -> bool:
        known = self._is_ours.get(lane)
        if known is None:
            if len(self._is_ours) >= _KNOWN_LANES_MAX:
                self._is_ours.clear()
            tokens = tuple(lane.split("."))
            known = self._is_ours[lane] = any(pattern_matches(each, tokens) for each in self._patterns)
        return known

    def _from_json(self, message: BusMessage) -> list[Message]:
        found = read_json_untrusted(message)
        if isinstance(found, Read):
            return self._as_stated(_with_since(found.publication, found.since))
        attributes: dict[str, AttributeValue] = {**self._terms.template.values_of(message.lane), **(found or {})}
        payload = b"" if found is not None else message.payload
        self._next_plain += 1
        return [Deliver(Publication(PLAIN, self._next_plain, 0, None, attributes, payload))]


def _states_a_beginning(raw: bytes) -> bool:
    """Whether this is a statement alone, of all that its client has published so far in its life."""
    return raw[2:5] == b"run" and not count_in(raw) and _value(_fields(raw)[_SINCE]) == 1


def _encoded(events: list[Publication], since: int) -> list[bytes]:
    """Events of one lane, in a batch if all are plain; and what is stated of them, where their publisher keeps them."""
    first = events[0]
    stated = (since, events[-1].seq) if first.record is not None else (0, 0)
    if all(each.lifetime_us is None and not each.record for each in events):
        payloads = tuple([each.payload for each in events]) if any(each.payload for each in events) else ()
        numbers = tuple([each.seq for each in events]), first.source, tuple([each.time_us for each in events])
        return [encode_message(Batch(*numbers, tuple([each.attributes for each in events]), payloads, 0, *stated))]
    singles = [encode_message(Deliver(each)) for each in events]
    return [*singles, encode_message(Batch((), first.source, (), (), (), 0, *stated))] if stated[0] else singles


def _with_since(publication: Publication, since: int) -> list[Deliver | Batch]:
    one = publication
    if one.lifetime_us is None and since:
        payloads = (one.payload,) if one.payload else ()
        return [Batch((one.seq,), one.source, (one.time_us,), (one.attributes,), payloads, 0, since, one.seq)]
    statement = [Batch((), one.source, (), (), (), 0, since, one.seq)] if since else []
    return [Deliver(one), *statement]
