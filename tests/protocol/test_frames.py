"""The messages of one frame, handled in one go, have the effects of the same messages one by one.

And a batch has those of the messages that it stands for.
"""

from collections import Counter, defaultdict
from random import Random

import pytest

from holdfast.matching.index import Index
from holdfast.model.messages import Batch, Deliver, Delta, Detach, Heartbeat, Message, Publication, Publish
from holdfast.protocol.broker import CoreBroker
from holdfast.protocol.client import CoreClient
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import (
    Delivered,
    DeliveredBatch,
    Effect,
    Incident,
    LinkDown,
    LinkUp,
    Multicast,
    Picked,
    Received,
    Send,
    SubscribeCall,
    Wake,
)
from holdfast.protocol.node import ClientMachine
from holdfast.protocol.parts import BrokerParts
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.settings import BEST_EFFORT, Guarantees, ProtocolSettings, Routing
from holdfast.protocol.stack import new_client
from holdfast.wire.codec import decode_frame_untrusted, encode_message, framed
from tests.protocol.wires import bare_broker

NOW_US = 1_000_000


def client() -> CoreClient:
    made = CoreClient("desk", ProtocolSettings(), ConditionBook(), Index, 1, Random(1))
    made.handle(LinkUp("b1", "broker"), 0)
    made.handle(SubscribeCall("s1", "n > 0"), 0)
    return made


def event(seq: int, n: int, lifetime_us: int | None = None, source: str = "p") -> Publication:
    return Publication(source, seq, NOW_US - 500, lifetime_us, {"n": n})


MESSAGES: list[Message] = [
    Deliver(event(1, 5)),
    Deliver(event(1, 5)),  # again
    Deliver(event(2, 0)),  # not wanted
    Deliver(event(3, 5, lifetime_us=100)),  # expired
    Heartbeat(7, ((0, 0), (0, 0))),
    Publish(event(4, 5)),  # not for a client
    Delta("subscriptions", 1, ("n = 1",), ()),
    Deliver(event(9, 5), "repair"),
    Deliver(event(1, 7, source="q")),
]


def test_a_clients_frame_is_its_messages_in_their_order() -> None:
    at_once, one_by_one = client(), client()
    effects: list[Effect] = []
    for message in MESSAGES:
        effects += one_by_one.handle(Received("b1", message), NOW_US)
    assert at_once.receive("b1", MESSAGES, NOW_US) == effects
    assert len(effects) >= len(MESSAGES) - 1


def broker(routing: Routing = "subscriptions") -> CoreBroker:
    made = bare_broker(BrokerParts("b1", routing, ProtocolSettings(hops_max=5), ConditionBook(), Index, 1, Random(1)))
    for name in ("p", "desk"):
        made.handle(LinkUp(name, "client"), 0)
    made.handle(Received("desk", Delta("subscriptions", 1, ("n > 0",), ())), 0)
    return made


def test_a_brokers_frame_is_its_messages_in_their_order() -> None:
    messages: list[Message] = [
        Publish(event(1, 5)),
        Publish(event(2, 0)),  # nobody wants it
        Publish(event(3, 5, source="q")),  # in another's name
        Publish(event(4, 5, lifetime_us=100)),  # expired
        Delta("subscriptions", 1, ("n = 1",), ()),
        Publish(event(5, 1)),
        Deliver(event(6, 1)),  # not for a broker
        Detach(),
        Publish(event(7, 5)),  # from a stranger now
        Heartbeat(7, ((0, 0), (0, 0)), kind="client"),  # and no longer
        Publish(event(8, 5)),
    ]
    at_once, one_by_one = broker(), broker()
    effects: list[Effect] = []
    for message in messages:
        effects += one_by_one.handle(Received("p", message), NOW_US)
    assert at_once.receive("p", messages, NOW_US) == effects
    assert len(effects) >= 8


# Batches ------------------------------------------------------------------------------------------------------------


def outcome(effects: list[Effect]) -> object:
    """What came of it, with runs taken apart: what each neighbour is sent, what is delivered, what went wrong."""
    sent: dict[str, list[Message]] = defaultdict(list)
    delivered: list[object] = []
    incidents: Counter[tuple[str, str]] = Counter()
    for effect in effects:
        match effect:
            case Send(to=to, message=message):
                sent[to].append(message)
            case Multicast(to=several, message=Batch() as batch):
                for to in several:
                    sent[to] += batch.published() if to.startswith("b") else batch.delivered()
            case Multicast(to=several, message=message):
                for to in several:
                    sent[to].append(message)
            case Delivered(publication=publication, subscriptions=ids):
                delivered.append((publication, ids))
            case DeliveredBatch(publications=publications, subscriptions=each):
                delivered += [(publication, tuple(ids)) for publication, ids in zip(publications, each, strict=True)]
            case Incident(kind=kind, peer=peer, source=source, count=count):
                incidents[kind, peer, source] += count
    return sent, delivered, incidents


def drawn_run(rng: Random, source: str) -> Batch:
    count = rng.choice((1, 2, 5, 30))
    first = rng.randrange(100)
    seqs = tuple(range(first, first + count)) if rng.random() < 0.7 else tuple(rng.choices(range(100), k=count))
    values = rng.choice(((1,), (1, 5), range(-1, 9)))
    attributes = tuple({"n": rng.choice(values)} for _ in seqs)
    payloads = tuple(rng.randbytes(2) for _ in seqs) if rng.random() < 0.5 else ()
    return Batch(
        seqs, source, tuple(NOW_US - each for each in range(count)), attributes, payloads, rng.choice((0, 0, 6))
    )


def busy_broker(routing: Routing, rng: Random) -> CoreBroker:
    """With neighbours of both kinds that want different things."""
    made = broker(routing)
    for name, kind in {"b2": "broker", "b3": "broker", **{f"c{n}": "client" for n in range(4)}}.items():
        made.handle(LinkUp(name, kind), 0)  # type: ignore[arg-type]
        condition = rng.choice(("n > 0", "n = 1", "n > 4", "n < 3 OR n > 6", "TRUE"))
        made.handle(Received(name, Delta("subscriptions", 1, (condition,), ())), 0)
    return made


@pytest.mark.parametrize("routing", ["subscriptions", "destinations"])
@pytest.mark.parametrize("seed", range(100))
def test_a_run_is_to_a_broker_what_its_publications_are(seed: int, routing: Routing) -> None:
    is_snapshot, apart = (busy_broker(routing, Random(seed)) for _ in range(2))
    rng = Random(seed)
    for _ in range(10):
        sender, source = rng.choice((("p", "p"), ("p", "p"), ("p", "q"), ("b2", "q"), ("stranger", "p")))
        batch = drawn_run(rng, source)
        effects = is_snapshot.receive(sender, [batch], NOW_US)
        assert outcome(effects) == outcome(apart.receive(sender, batch.published(), NOW_US))


@pytest.mark.parametrize("guarantees", [BEST_EFFORT, Guarantees(RecoverySettings())], ids=["best effort", "recovery"])
@pytest.mark.parametrize("conditions", [("n > 0",), ("n > 0", "n > 4"), ("n < 3 OR n > 0", "TRUE"), ()])
@pytest.mark.parametrize("seed", range(50))
def test_a_run_is_to_a_client_what_its_publications_are(
    seed: int, conditions: tuple[str, ...], guarantees: Guarantees
) -> None:
    rng = Random(seed)
    is_snapshot, apart = (
        new_client("desk", ProtocolSettings(), ConditionBook(), Index, 1, Random(1), guarantees=guarantees)
        for _ in range(2)
    )
    for each in (is_snapshot, apart):
        each.handle(LinkUp("b1", "broker"), 0)
        for condition in conditions:
            each.handle(SubscribeCall(condition, condition), 0)
    for _ in range(20):
        batch = drawn_run(rng, rng.choice("pq"))
        effects = is_snapshot.receive("b1", [batch], NOW_US)
        assert outcome(effects) == outcome(apart.receive("b1", batch.delivered(), NOW_US))


def test_a_run_that_all_want_is_passed_on_whole_and_one_that_some_want_in_parts() -> None:
    made = broker()
    made.handle(LinkUp("more", "client"), 0)
    made.handle(Received("more", Delta("subscriptions", 1, ("n > 4",), ())), 0)
    all_want = Batch((1, 2), "p", (0, 0), ({"n": 5}, {"n": 6}), (), 0)
    assert made.receive("p", [all_want], NOW_US) == [Multicast(("desk", "more"), all_want)]
    some_want = Batch((3, 4, 5), "p", (0, 0, 0), ({"n": 1}, {"n": 5}, {"n": 0}), (), 0)
    assert made.receive("p", [some_want], NOW_US) == [
        Multicast(("desk",), some_want.picked([0, 1]), Picked(some_want, (0, 1))),
        Multicast(("more",), some_want.picked([1]), Picked(some_want, (1,))),
    ]


def test_however_many_want_different_parts_of_a_run_each_gets_one_message() -> None:
    made = broker()
    for n in range(8):
        made.handle(LinkUp(f"c{n}", "client"), 0)
        made.handle(Received(f"c{n}", Delta("subscriptions", 1, (f"n <> {n}",), ())), 0)
    batch = Batch(tuple(range(1, 9)), "p", (0,) * 8, tuple({"n": n} for n in range(8)), (), 0)
    effects = made.receive("p", [batch], NOW_US)
    spread = [each for each in effects if isinstance(each, Multicast)]
    assert all(isinstance(each.message, Batch) and len(each.message.seqs) == 7 for each in spread)
    assert sorted(name for each in spread for name in each.to) == sorted(["desk", *(f"c{n}" for n in range(8))])


# What is published in a row ----------------------------------------------------------------------------------------


def publishing(batches: bool = True, reliable: bool = True) -> ClientMachine:
    made = new_client("p", ProtocolSettings(), ConditionBook(), Index, 1, Random(1), batches=batches)
    made.handle(LinkUp("b1", "broker", reliable=reliable), 0)
    return made


def publish(made: ClientMachine, n: int, payload: bytes = b"", lifetime_us: int | None = None) -> list[Message]:
    attributes = {"n": n}
    effects = made.publish(attributes, payload, lifetime_us, NOW_US, encode_message(attributes))
    return sent(effects)


def sent(effects: list[Effect]) -> list[Message]:
    messages = [
        each.message for each in effects if isinstance(each, Send) and isinstance(each.message, Publish | Batch)
    ]
    return [each for one in messages for each in decode_frame_untrusted(framed([encode_message(one)]))]


def seqs(messages: list[Message]) -> list[list[int]]:
    return [[*each.seqs] if isinstance(each, Batch) else [each.publication.seq] for each in messages]  # type: ignore[union-attr]


def test_events_that_are_published_in_a_row_leave_in_one_message_when_the_machine_is_woken() -> None:
    made = publishing()
    assert [publish(made, n) for n in range(1, 101)] == [[]] * 100
    assert made.last_seq == 100
    assert made.next_due_us() == NOW_US
    (batch,) = sent(made.handle(Wake(), NOW_US))
    assert isinstance(batch, Batch)
    assert (batch.seqs, batch.attributes) == (tuple(range(1, 101)), tuple({"n": n} for n in range(1, 101)))
    assert sent(made.handle(Wake(), NOW_US)) == []


def test_an_event_with_a_lifetime_leaves_alone_and_behind_those_before_it() -> None:
    made = publishing()
    publish(made, 1)
    publish(made, 2)
    assert seqs(publish(made, 3, lifetime_us=1_000_000)) == [[1, 2], [3]]
    publish(made, 4)
    assert seqs(sent(made.handle(Wake(), NOW_US))) == [[4]]


def test_a_batch_fits_a_frame_and_an_event_that_does_not_is_one_by_itself() -> None:
    made = publishing()
    messages = [each for n in range(100) for each in publish(made, n, b"x" * 2_000)]
    messages += publish(made, 100, b"x" * 100_000)
    messages += [*publish(made, 101), *sent(made.handle(Wake(), NOW_US))]
    assert [seq for each in seqs(messages) for seq in each] == list(range(1, 103))
    assert [101] in seqs(messages)
    sizes = [len(encode_message(each)) for each in messages]
    assert sorted(sizes)[-2] <= 64 * 1024 < sorted(sizes)[-1]


@pytest.mark.parametrize(("batches", "reliable"), [(False, True), (True, False)], ids=["counted", "lossy"])
def test_where_events_are_counted_or_may_be_lost_each_leaves_at_once(batches: bool, reliable: bool) -> None:
    made = publishing(batches, reliable)
    assert [seqs(publish(made, n)) for n in range(1, 4)] == [[[1]], [[2]], [[3]]]


def test_what_waits_when_the_link_goes_down_is_sent_before_it_does() -> None:
    made = publishing()
    publish(made, 1)
    publish(made, 2)
    assert seqs(sent(made.handle(LinkDown("b1"), NOW_US))[:1]) == [[1, 2]]
