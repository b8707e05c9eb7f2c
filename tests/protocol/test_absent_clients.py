"""Subscribers that die, come back as another process or stay away: what is kept, handed over and given up."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.matching.index import Index
from holdfast.model.messages import (
    Batch,
    Deliver,
    Detach,
    GivenUp,
    Handover,
    Heartbeat,
    Message,
    Publication,
    Publish,
    Snapshot,
    StoredAck,
)
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import (
    Begin,
    Consumed,
    Delivered,
    DeliveredBatch,
    Effect,
    ForgetCall,
    HandedOut,
    LinkDown,
    LinkUp,
    Lost,
    Persist,
    Persisted,
    Received,
    Send,
    SubscribeCall,
    Wake,
)
from holdfast.protocol.hops.absent_clients import Away
from holdfast.protocol.hops.outgoing import KeptMessage, Outgoing
from holdfast.protocol.hops.settings import HandoverSettings, HopSettings
from holdfast.protocol.node import BrokerMachine, ClientMachine
from holdfast.protocol.parts import BrokerParts
from holdfast.protocol.settings import Order, ProtocolSettings, Reliability, guarantees_of
from holdfast.protocol.stack import new_broker, new_client
from holdfast.protocol.store_changes import Stored
from holdfast.store.memory import MemoryStore
from tests.protocol.stored_network import HOPS, SETTINGS, Line


class Desk(Line):
    """A line whose subscriber is a process that is killed now and then, and reads when it likes."""

    def __init__(self, seed: int, brokers: int, batches: bool) -> None:
        self.lives: list[list[int]] = []
        self.done = 0  # the last event that some life was done with
        super().__init__(seed, brokers, 0.0, batches)
        self.start()

    def start(self) -> None:
        """A new life: it subscribes, and then it begins."""
        self.read, self.seen = 0, 0
        self.marks: list[tuple[int, int]] = []  # tokens, and how many events had come by then
        self.lives.append([])
        common = ProtocolSettings(), self._book, Index, self.now_us, Random("s"), self.now_us + 1
        self.nodes["s"] = new_client("s", *common, hops=HOPS, confirms=True)
        self._on_the_way = type(self._on_the_way)(each for each in self._on_the_way if "s" not in each[:2])
        self.now_us += 1
        self._link("s")
        self.give(self.names[-1], LinkUp("s", "client"))
        self.give("s", SubscribeCall("all", "n > 0"))
        self.give("s", Begin())

    def _perform(self, name: str, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Delivered):
                self.lives[-1].append(int(str(effect.publication.attributes["n"])))
            elif isinstance(effect, DeliveredBatch):
                self.lives[-1] += [int(str(each.attributes["n"])) for each in effect.publications]
            elif isinstance(effect, HandedOut):
                self.marks.append((effect.token, len(self.lives[-1])))
        super()._perform(name, effects)

    def take(self, count: int) -> None:
        """The application is done with so many more of those that have come."""
        self.read = min(len(self.lives[-1]), self.read + count)
        self.done = max(self.done, self.lives[-1][self.read - 1] if self.read else 0)
        token = max((token for token, came in self.marks if came <= self.read), default=0)
        left = self.lives[-1][self.read] if self.read < len(self.lives[-1]) else 0
        self.give("s", Consumed(token, "p", left))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    brokers=st.integers(1, 2),
    batches=st.booleans(),
    doings=st.lists(
        st.sampled_from(["publish", "publish", "publish", "steps", "crash", "restart", "wait", "take", "kill"]),
        max_size=100,
    ),
)
def test_whoever_dies_wherever_nothing_is_lost_and_what_was_done_with_does_not_keep_coming(
    seed: int, brokers: int, batches: bool, doings: list[str]
) -> None:
    desk = Desk(seed, brokers, batches)
    published = 0
    for doing in doings:
        if doing == "publish":
            for _ in range(desk.dice.randrange(1, 5)):
                published += 1
                desk.publish(published)
        elif doing == "steps":
            for _ in range(desk.dice.randrange(30)):
                desk.step()
        elif doing == "wait":
            desk.settle(desk.dice.randrange(1_000_000))
        elif doing == "take":
            desk.take(desk.dice.randrange(1, 9))
        elif doing == "kill":
            desk.start()
        elif doing == "crash" and len(desk.down) < brokers:
            desk.crash(desk.dice.choice([name for name in desk.names if name not in desk.down]))
        elif doing == "restart" and desk.down:
            desk.restart(desk.dice.choice(sorted(desk.down)))
    for name in sorted(desk.down):
        desk.restart(name)
    for _ in range(40):
        desk.settle(3_000_000)
        desk.take(1_000)
    for life in desk.lives:
        assert life == list(range(life[0], life[-1] + 1)) if life else True
    assert sorted({number for life in desk.lives for number in life}) == list(range(1, published + 1))
    assert (desk.lives[-1][-1:] or [desk.done]) == ([published] if published else [0])
    for name, store in desk.stores.items():
        assert not store.holds_events, name


def test_what_was_done_with_and_acknowledged_does_not_come_again_also_within_a_run() -> None:
    desk = Desk(1, 1, batches=True)
    for number in range(1, 11):
        desk.publish(number)
    desk.settle()
    assert desk.lives[-1] == list(range(1, 11))
    desk.take(4)
    desk.settle(1_000)
    desk.start()
    desk.settle()
    assert desk.lives[-1] == list(range(5, 11))
    desk.take(2)
    desk.settle(1_000)
    desk.start()
    desk.settle()
    assert desk.lives[-1] == list(range(7, 11))


def test_what_was_done_with_within_a_run_does_not_come_again_from_a_broker_that_was_killed_a_sweep_later() -> None:
    desk = Desk(1, 1, batches=True)
    for number in range(1, 11):
        desk.publish(number)
    desk.settle()
    for done in (4, 6):
        desk.take(done - desk.done)
        desk.settle(SETTINGS.sweep_us)
        desk.crash("b0")
        desk.restart("b0")
        desk.start()
        desk.settle()
        assert desk.lives[-1] == list(range(done + 1, 11))


def test_the_store_is_not_told_of_each_acknowledgement_within_a_run() -> None:
    keeper = Keeper()
    batch = Batch(tuple(range(1, 101)), "p", (1,) * 100, ({"n": 1},) * 100, (), 0)
    [handover] = [each for each in keeper.hear(batch, "p") if isinstance(each, Handover)]
    written = keeper.written
    for number in range(2, 101):
        keeper.hear(StoredAck(handover.stream, 0, (), 1, number))
    assert keeper.written == written
    keeper.wait(keeper.settings.sweep_us)
    assert keeper.written == written + 1
    assert keeper.store.load().neighbours["c"].partly == (1, 100)
    keeper.wait(keeper.settings.sweep_us)
    assert keeper.written == written + 1  # nothing is new
    keeper.hear(StoredAck(handover.stream, 1))
    keeper.wait(keeper.settings.sweep_us)
    assert keeper.store.load().bodies == {}


# One broker, spoken to directly ----------------------------------------------------------------------------------


class Keeper:
    """A broker with its store, and a client that may be away."""

    def __init__(self, **handover: int) -> None:
        self.settings = HandoverSettings(**handover)
        self.store = MemoryStore()
        self.written = 0  # changes
        self.now_us = 1_000
        self.broker = self._new(Stored())
        for name in ("c", "p"):
            self.do(LinkUp(name, "client"))
        self.hello(5)
        self.hear(Snapshot("subscriptions", 1, ("n > 0",)))

    def _new(self, stored: Stored) -> BrokerMachine:
        parts = BrokerParts("b", "subscriptions", ProtocolSettings(), ConditionBook(), Index, self.now_us, Random("b"))
        return new_broker(parts, Reliability(HopSettings("retransmission", handover=self.settings)), stored)

    def do(self, given: LinkUp | LinkDown | Received | Wake) -> list[Message]:
        """What it says to the client."""
        self.now_us += 1
        effects = self.broker.handle(given, self.now_us)
        said: list[Message] = []
        while effects:
            effect = effects.pop(0)
            if isinstance(effect, Persist):
                self.store.write(effect.changes)
                self.written += len(effect.changes)
                effects += self.broker.handle(Persisted(effect.token), self.now_us)
            elif isinstance(effect, Send) and effect.to == "c":
                said.append(effect.message)
        return said

    def hear(self, message: Message, sender: str = "c") -> list[Message]:
        return self.do(Received(sender, message))

    def hello(self, epoch: int, begins: bool = True) -> list[Message]:
        said = self.hear(Heartbeat(epoch, ((0, 0),) * 2, kind="client"))
        return said + self.hear(StoredAck(0, 0 if begins else 1))

    def publish(self, *numbers: int) -> list[Message]:
        return [
            message
            for number in numbers
            for message in self.hear(Publish(Publication("p", number, self.now_us, None, {"n": number})), "p")
        ]

    def wait(self, us: int) -> None:
        self.now_us += us
        self.do(Wake())

    def restart(self) -> None:
        self.wait(self.settings.sweep_us)
        self.broker = self._new(self.store.load())


def handed(said: list[Message]) -> list[int]:
    messages = [each.message for each in said if isinstance(each, Handover)]
    return [each.publication.seq for each in messages if isinstance(each, Publish | Deliver)]


def given_up(said: list[Message]) -> list[GivenUp]:
    return [each for each in said if isinstance(each, GivenUp)]


def test_another_life_of_a_client_finds_the_table_of_the_earlier_one() -> None:
    keeper = Keeper()
    keeper.do(LinkDown("c"))
    keeper.publish(1)
    keeper.do(LinkUp("c", "client"))
    keeper.hello(6, begins=False)
    assert handed(keeper.publish(2)) == []  # it is still kept
    assert handed(keeper.hear(StoredAck(0, 0))) == [1]


def test_of_what_is_kept_for_a_client_that_is_away_the_oldest_is_given_up_and_it_is_told_until_it_says_so() -> None:
    keeper = Keeper(away_max=20, away_us=0)
    keeper.do(LinkDown("c"))
    keeper.publish(*range(1, 31))
    keeper.restart()
    keeper.do(LinkUp("c", "client"))
    [told] = given_up(keeper.hello(6))
    assert (told.events, "more than 20 events" in told.reason) == (12, True)  # two by two, a tenth of the room
    assert 1_000 < told.since_us < told.until_us < keeper.now_us
    assert set(given_up(keeper.hello(6))) == {told}  # its answer may be lost
    keeper.hear(told)
    assert given_up(keeper.hello(6)) == []
    keeper.restart()
    assert given_up(keeper.hello(6)) == []
    assert handed(keeper.hear(StoredAck(0, 0))) == [13]


def test_clients_that_are_away_share_a_quarter_of_the_store() -> None:
    away = Away(HandoverSettings(stored_max=800, away_max=150, away_us=50), {})
    for name in "abcd":
        away.begin(name, 0)
    assert [away.most_for(name, 49) for name in "abc"] == [None] * 3  # it may be back in a moment
    assert [away.most_for(name, 50) for name in "abc"] == [150, 100, 66]
    assert away.end("a")
    assert away.most_for("b", 60) == 100
    assert away.most_for("a", 60) is None


def test_a_broker_that_restarts_gives_up_nothing_of_clients_that_come_back_at_once() -> None:
    keeper = Keeper(away_max=20)
    keeper.publish(*range(1, 101))
    keeper.restart()
    keeper.publish(101)
    keeper.do(LinkUp("c", "client"))
    said = keeper.hello(5)
    assert given_up(said) == []
    assert set(handed(said)) == {1}


def test_a_client_that_is_connected_is_given_all_however_slow_it_is() -> None:
    keeper = Keeper(away_max=20)
    keeper.publish(*range(1, 101))
    assert given_up(keeper.hear(StoredAck(0, 0))) == []


def test_a_client_that_was_forgotten_is_told_so_when_it_comes_back() -> None:
    keeper = Keeper(keep_us=10_000_000)
    keeper.do(LinkDown("c"))
    keeper.publish(1, 2)
    keeper.wait(8_000_000)
    keeper.publish(3)
    keeper.wait(4_000_000)
    keeper.restart()
    keeper.do(LinkUp("c", "client"))
    [told] = given_up(keeper.hello(6))
    assert told.events == 3
    assert "kept for longer than 10 s" in told.reason or "away for longer than 10 s" in told.reason
    assert told.until_us == keeper.now_us


def test_who_asks_to_be_forgotten_leaves_nothing() -> None:
    keeper = Keeper(away_max=20, away_us=0)
    keeper.do(LinkDown("c"))
    keeper.publish(*range(1, 31))
    keeper.do(LinkUp("c", "client"))
    keeper.hear(Detach())
    stored = keeper.store.load()
    assert (stored.bodies, stored.gave_up) == ({}, {})
    assert "c" not in stored.neighbours
    assert given_up(keeper.hello(6)) == []


def test_what_has_arrived_is_not_sent_again_before_the_client_comes_back() -> None:
    outgoing = Outgoing(5, HandoverSettings(window=4), to_client=True)
    for number in range(1, 7):
        outgoing.put(KeptMessage(number, Publish(Publication("p", number, 0, None, {})), 0, 10**9))
    assert [each.seq for each in outgoing.release(6, 0)] == [1, 2, 3, 4]
    assert outgoing.on_ack(StoredAck(5, 0, (), 4), 100) == []
    assert outgoing.due_us is None  # nothing to wait for but the application
    assert outgoing.fill(10**8) == []
    assert len(outgoing.on_ack(StoredAck(5, 2, (), 4), 10**8)) == 2
    assert [each.seq for each in outgoing.fill(10**8)] == [5, 6]
    assert [each.seq for each in outgoing.try_again(10**8)] == [3]


def test_of_a_run_only_what_is_not_taken_is_sent_again() -> None:
    outgoing = Outgoing(5, HandoverSettings(), to_client=True)
    batch = Batch((11, 12, 13), "p", (1, 2, 3), ({"n": 1}, {"n": 2}, {"n": 3}), (), 0)
    outgoing.put(KeptMessage(1, batch, 0, 10**9))
    outgoing.release(1, 0)
    outgoing.on_ack(StoredAck(5, 0, (), 1, 12), 100)
    [again] = outgoing.try_again(200)
    assert isinstance(again.message, Batch)
    assert again.message.seqs == (12, 13)


# One client, spoken to directly ----------------------------------------------------------------------------------


def subscriber(order: Order = "none", **handover: int) -> ClientMachine:
    hops = HopSettings("retransmission", handover=HandoverSettings(**handover))
    common = "c", ProtocolSettings(), ConditionBook(), Index, 1, Random("c"), 1, guarantees_of(False, order), hops
    durable = new_client(*common, confirms=True)
    durable.handle(LinkUp("b", "broker"), 2)
    durable.handle(SubscribeCall("s", "n > 0"), 3)
    return durable


def event(seq: int, record: bytes | None = None) -> Received:
    return Received("b", Handover(7, seq, 1, False, Deliver(Publication("p", seq, 1, None, {"n": seq}, b"", record))))


def sent(effects: list[Effect], kind: type) -> list[Message]:
    return [each.message for each in effects if isinstance(each, Send) and isinstance(each.message, kind)]


def test_nothing_is_taken_before_the_application_has_subscribed_to_what_it_wants() -> None:
    client = subscriber()
    assert client.handle(event(1), 4) == []
    wrong = Heartbeat(1, ((9, 9), (0, 0)))
    assert sent(client.handle(Received("b", wrong), 5_000_000), Snapshot) == []  # the table of its earlier life stays
    assert sent(client.handle(Begin(), 6_000_000), StoredAck) == [StoredAck(0, 0)]
    assert [type(each) for each in client.handle(event(1), 7_000_000)] == [Delivered, HandedOut, Send]
    assert len(sent(client.handle(Received("b", wrong), 8_000_000), Snapshot)) == 1


def test_the_broker_is_told_that_an_event_has_come_and_later_that_it_is_taken() -> None:
    client = subscriber()
    client.handle(Begin(), 4)
    assert sent(client.handle(event(1), 5), StoredAck) == [StoredAck(7, 0, (), 1)]
    assert sent(client.handle(event(2), 6), StoredAck) == [StoredAck(7, 0, (), 2)]
    assert sent(client.handle(Consumed(1), 7), StoredAck) == [StoredAck(7, 1, (), 2)]
    assert sent(client.handle(Consumed(2), 8), StoredAck) == [StoredAck(7, 2)]


def test_an_application_gets_no_more_at_a_time_than_it_may_have() -> None:
    client = subscriber(untaken_max=3)
    client.handle(Begin(), 4)
    delivered = [each for seq in range(1, 8) for each in client.handle(event(seq), 5) if isinstance(each, Delivered)]
    assert len(delivered) == 3
    more = [each.publication.seq for each in client.handle(Consumed(2), 6) if isinstance(each, Delivered)]
    assert more == [4, 5]


def test_what_is_held_back_for_the_sake_of_order_is_not_taken_before_the_application_has_it() -> None:
    client = subscriber("strict")
    client.handle(Begin(), 4)
    held = client.handle(event(1, b""), 5)
    assert not [each for each in held if isinstance(each, Delivered | HandedOut)]
    assert sent(held, StoredAck) == [StoredAck(7, 0, (), 1)]
    came: list[Effect] = []
    while not came:
        due_us = client.next_due_us()
        assert due_us is not None
        came = [each for each in client.handle(Wake(), due_us) if isinstance(each, Delivered | HandedOut)]
    assert [type(each) for each in came] == [Delivered, HandedOut]


def test_leaving_says_nothing_and_forgetting_says_good_bye() -> None:
    client = subscriber()
    assert sent(client.handle(LinkDown("b"), 4), Detach) == []
    client.handle(LinkUp("b", "broker"), 5)
    stays = client.handle(ForgetCall(stays=True), 6)
    assert [type(each.message) for each in stays if isinstance(each, Send)][:2] == [Detach, Heartbeat]
    assert sent(client.handle(ForgetCall(stays=False), 7), Detach) == [Detach()]


def test_what_was_given_up_is_named_once_however_often_it_is_told() -> None:
    client = subscriber()
    told = GivenUp(10, 20, 5, "too many")
    first, second = (client.handle(Received("b", told), now_us) for now_us in (4, 5))
    assert [each for each in first if isinstance(each, Lost)] == [Lost("", 0, 0, "too many", 10, 20, 5)]
    assert sent(first, GivenUp) == sent(second, GivenUp) == [told]
    assert not [each for each in second if isinstance(each, Lost)]


def test_who_comes_back_at_another_broker_knows_where_its_events_are() -> None:
    client = subscriber()
    client.handle(LinkDown("b"), 10)
    [lost] = [each for each in client.handle(LinkUp("d", "broker"), 20) if isinstance(each, Lost)]
    assert (lost.since_us, lost.until_us) == (10, 20 + ProtocolSettings().heartbeat_us)  # until others know us, too
    assert "stored at b" in lost.reason
