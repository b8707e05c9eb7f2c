"""A layer that lets each client publish and see what its rights allow, and nothing else.

It stands between the clients and a broker with all its other layers, so it holds for whatever brings an event: routing,
repairs, what was stored for a client that was away. What a client publishes outside its right goes no further. What it
subscribes to is admitted, or denied, and then it is told what it may have instead. What leaves for a client is checked
once more, because rights change, and because repairs are addressed to who asks for them.

The control messages of recovery pass, with the events inside a repair looked at one by one. Only their publisher sends
digests and repairs of its events. What a control message is follows from what is in it, as for whoever gets it, and not
from how it is marked.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from holdfast.language.problems import ConditionError
from holdfast.language.subscription import Subscription
from holdfast.model.errors import PeerError
from holdfast.model.event import RESERVED, Attributes
from holdfast.model.messages import (
    Batch,
    Deliver,
    Delta,
    Handover,
    Message,
    Numbered,
    Publication,
    Publish,
    Snapshot,
    Stamped,
    with_statement,
)
from holdfast.protocol.client_rights import ClientRights, publication_refused, subscription_denied
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import Deny, Effect, Input, Multicast, Received, Send
from holdfast.protocol.groups import rights as group_rights
from holdfast.protocol.node import BrokerLayer, BrokerMachine
from holdfast.protocol.recovery.control import (
    CONTROL_SEQ,
    GROUP,
    KIND,
    OF,
    SEQ,
    Control,
    Digest,
    Repair,
    address_of,
    decode_untrusted,
    encoded,
    is_open_repair,
    labels,
)

_TO_CLIENTS = (Deliver, Batch, Numbered, Handover)
_NOTHING = Repair()


class GuardLayer(BrokerLayer[BrokerMachine]):
    def __init__(self, broker: BrokerMachine, rights: ClientRights, book: ConditionBook) -> None:
        super().__init__(broker)
        self._rights = rights
        self._book = book

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        if type(given) is Received:
            return self.receive(given.sender, (given.message,), now_us)
        return self._shown(self.inner.handle(given, now_us))

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        if self.inner.kind_of(sender) == "broker":  # which answers for its own clients
            return self._shown(self.inner.receive(sender, messages, now_us))
        effects: list[Effect] = []
        admitted = [each for one in messages if (each := self._admitted(sender, one, effects)) is not None]
        return effects + self._shown(self.inner.receive(sender, admitted, now_us)) if admitted else effects

    # What clients send ---------------------------------------------------------------------------

    def _admitted(self, client: str, message: Message, effects: list[Effect]) -> Message | None:
        """As much of a message as the client has a right to; what becomes of the rest is added to the effects."""
        if isinstance(message, Publish | Stamped):
            why = self._why_not(client, message.publication)
            if why:
                _refuse(client, message.publication.seq, 1, why, effects)
            return None if why else message
        if type(message) is Batch:
            return self._admitted_batch(client, message, effects)
        if type(message) is Numbered:
            if self._admitted(client, message.publish, effects) is not None:
                return message
            void = Publish(_void(message.publication))  # the link counts what crosses it
            return Numbered(message.stream, message.seq, message.again, void)
        if type(message) is Handover and message.message is not None:
            inner = self._admitted(client, message.message, effects)
            assert inner is None or isinstance(inner, Publish | Deliver | Batch)
            return Handover(message.stream, message.seq, message.first, message.again, inner)
        if isinstance(message, Delta | Snapshot) and message.table == "subscriptions":
            return self._admitted_conditions(client, message, effects)
        return message

    def _why_not(self, client: str, publication: Publication) -> str:
        attributes = publication.attributes
        if publication.seq != CONTROL_SEQ:
            return self._rights.why_not(client, attributes)
        is_open = is_open_repair(attributes)
        if not is_open and attributes.get(KIND) == GROUP:
            return group_rights.why_not(client, publication, self._rights, self._book)
        control = None if is_open else _inside(publication)
        if attributes.get(KIND) != _mark(control) and (is_open or control is not None):
            return "a control message is marked as something else"
        if (is_open or isinstance(control, Digest | Repair)) and attributes.get(OF, client) != client:
            return "only its publisher repairs an event, and tells of it"
        if is_open:
            return self._rights.why_not(client, _bare(attributes))
        found = control.publications if isinstance(control, Repair) else ()
        return next(filter(None, (self._rights.why_not(client, each.attributes) for each in found)), "")

    def _admitted_batch(self, client: str, batch: Batch, effects: list[Effect]) -> Batch | None:
        whys = [self._rights.why_not(client, each) if seq else "no number" for seq, each in _events(batch)]
        if not any(whys):
            return batch
        places = [at for at, why in enumerate(whys) if not why]
        at = next(at for at, why in enumerate(whys) if why)
        _refuse(client, batch.seqs[at], len(whys) - len(places), whys[at], effects)
        return _part(batch, places)

    def _admitted_conditions(self, client: str, change: Delta | Snapshot, effects: list[Effect]) -> Message:
        given = change.add if isinstance(change, Delta) else change.conditions
        kept: list[str] = []
        for each in given:
            instead = self._instead(client, each)
            if instead is None:
                kept.append(each)
            else:
                incident = subscription_denied(client, each, instead)
                effects += [incident, Deny(client, each, instead, incident.reason)]
        if len(kept) == len(given):
            return change
        if isinstance(change, Delta):
            return Delta(change.table, change.version, tuple(kept), change.drop)
        return Snapshot(change.table, change.version, tuple(kept), change.part, change.parts)

    def _instead(self, client: str, condition: str) -> str | None:
        """What a client may have instead of a condition, empty when nothing; None when it may have it."""
        try:
            wanted = self._book.subscription(condition)
        except ConditionError:
            return None  # which the broker says itself
        if _is_control(wanted, client):
            return None
        admitted = self._rights.admitted(client, wanted)
        return None if admitted == wanted else str(admitted) if admitted.filters else ""

    # What clients get ----------------------------------------------------------------------------

    def _shown(self, effects: list[Effect]) -> list[Effect]:
        out: list[Effect] = []
        for effect in effects:
            if not isinstance(effect, Send | Multicast) or not isinstance(effect.message, _TO_CLIENTS):
                out.append(effect)
                continue
            names = effect.to if isinstance(effect, Multicast) else (effect.to,)
            whole: list[str] = []
            for name in names:
                of = effect.message if self.inner.kind_of(name) == "broker" else self._part_for(name, effect.message)
                if of is effect.message:
                    whole.append(name)
                elif of is not None:
                    out.append(Send(name, of))
            if len(whole) == len(names):
                out.append(effect)
            elif whole:
                out.append(Multicast(tuple(whole), effect.message))
        return out

    def _part_for(self, client: str, message: Message) -> Message | None:
        """As much of a message as a client may see; the same object when that is all."""
        if type(message) is Deliver:
            publication = self._visible(client, message.publication)
            if publication is message.publication:
                return message
            return None if publication is None else Deliver(publication, message.via)
        if type(message) is Batch:
            places = [at for at, (_, each) in enumerate(_events(message)) if self._rights.may_see(client, each)]
            return message if len(places) == len(message.seqs) else _part(message, places)
        if type(message) is Numbered:
            inner = self._part_for(client, message.publish)
            if inner is message.publish:
                return message
            shown = inner if type(inner) is Deliver else Deliver(_void(message.publication))
            return Numbered(message.stream, message.seq, message.again, shown)
        if type(message) is Handover and message.message is not None:
            part = self._part_for(client, message.message)
            if part is message.message:
                return message
            assert part is None or isinstance(part, Deliver | Batch)
            return Handover(message.stream, message.seq, message.first, message.again, part)
        return message

    def _visible(self, client: str, publication: Publication) -> Publication | None:
        attributes = publication.attributes
        if publication.seq != CONTROL_SEQ:
            if not self._rights.may_see(client, attributes):
                return None
            tells = publication.record and not self._rights.sees_digests(client)
            return replace(publication, record=None) if tells else publication
        if is_open_repair(attributes):
            return publication if self._rights.may_see(client, _bare(attributes)) else None
        if attributes.get(KIND) == GROUP:
            return publication if group_rights.may_have(client, publication, self._rights) else None
        control = _inside(publication)
        if isinstance(control, Digest) and not self._rights.sees_digests(client):
            return None
        if not isinstance(control, Repair):
            return publication
        seen = tuple([each for each in control.publications if self._rights.may_see(client, each.attributes)])
        if len(seen) == len(control.publications):
            return publication
        return replace(publication, payload=encoded(Repair(seen, control.gone)))


def _refuse(client: str, seq: int, count: int, why: str, effects: list[Effect]) -> None:
    incident = publication_refused(client, why, seq, count)
    effects += [incident, Deny(client, "", "", incident.reason, seq, count)]


def _events(batch: Batch) -> Iterable[tuple[int, Attributes]]:
    return zip(batch.seqs, batch.attributes, strict=True)


def _part(batch: Batch, places: Sequence[int]) -> Batch | None:
    """Some of its events, with what it states: of those left out nobody who may see them is without."""
    if not places and not batch.since:
        return None
    return with_statement(batch.picked(places), batch.hops, batch.since, batch.upto)


def _bare(attributes: Attributes) -> Attributes:
    """Those of the event that an open repair repeats."""
    return {name: value for name, value in attributes.items() if not name.startswith(RESERVED)}


def _inside(publication: Publication) -> Control | None:
    """What recovery finds in a control message, however that is marked; None when that is nothing."""
    try:
        return decode_untrusted(publication)
    except PeerError:
        return None


def _mark(control: Control | None) -> object:
    """How a control message with this inside is marked; None for an open repair, which is marked by its number."""
    return None if control is None else labels(control, ())[KIND]


def _void(publication: Publication) -> Publication:
    """A control message that says nothing, in the place of an event."""
    source, time_us = publication.source, publication.time_us
    return Publication(source, CONTROL_SEQ, time_us, None, labels(_NOTHING, ()), encoded(_NOTHING))


def _is_control(wanted: Subscription, client: str) -> bool:
    """Whether it is about control messages alone, and about those that a client of this name may follow."""
    mine = {KIND, OF, SEQ, address_of(client)}
    for filter_ in wanted.filters:
        names = [each.attribute for each in filter_ if each.attribute.startswith(RESERVED) and each.op != "IS NULL"]
        if not names or not mine.issuperset(names):
            return False
    return bool(wanted.filters)
