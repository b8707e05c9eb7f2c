"""Links that repair their own losses: every event once, whatever is lost, doubled or overtaken on the way."""

from heapq import heappop, heappush
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.messages import HighestSent, Message, Nack, Numbered, Publication, Publish
from holdfast.protocol.effects import Effect, Incident, LinkUp, PublishCall, Received, Send, Wake
from holdfast.protocol.hops.nack import NackLayer
from holdfast.protocol.hops.nack_receiver import NackReceiver
from holdfast.protocol.hops.nack_sender import NackSender
from holdfast.protocol.hops.settings import NackSettings
from tests.protocol.wires import Wires

SETTINGS = NackSettings()
MS = 1_000


def event(number: int) -> Publish:
    return Publish(Publication("p", number, 0, None, {"n": number}))


class Link:
    """A sender and a receiver, and a link between them that asks the dice what becomes of each message."""

    def __init__(self, seed: int, loss: float, jitter_us: int = 0, doubled: float = 0.0, tries: int = 50) -> None:
        self.dice = Random(seed)
        self.loss, self.jitter_us, self.doubled = loss, jitter_us, doubled
        self.sender = NackSender(7, NackSettings(tries=tries, beats=20))
        self.receiver = NackReceiver(NackSettings(tries=tries, beats=20), 0)
        self.now_us = 0
        self.got: list[int] = []
        self.sent: dict[str, int] = {}
        self._on_the_way: list[tuple[int, int, bool, Message]] = []

    def carry(self, message: Message, forth: bool) -> None:
        kind = "again" if isinstance(message, Numbered) and message.again else type(message).__name__
        self.sent[kind] = self.sent.get(kind, 0) + 1
        for _ in range(1 + (self.dice.random() < self.doubled)):
            if self.dice.random() >= self.loss:
                arrives_us = self.now_us + MS + self.dice.randrange(self.jitter_us + 1)
                heappush(self._on_the_way, (arrives_us, len(self.got) + sum(self.sent.values()), forth, message))

    def publish(self, number: int) -> None:
        self.carry(self.sender.send(event(number), self.now_us), True)

    def pass_time(self, until_us: int) -> None:
        while True:
            due = [each for each in (self.sender.due_us, self.receiver.due_us) if each is not None]
            due += [self._on_the_way[0][0]] if self._on_the_way else []
            if not due or min(due) > until_us:
                break
            self.now_us = max(self.now_us, min(due))
            while self._on_the_way and self._on_the_way[0][0] <= self.now_us:
                _, _, forth, message = heappop(self._on_the_way)
                self._arrive(forth, message)
            latest = self.sender.on_timer(self.now_us)
            if latest is not None:
                self.carry(latest, True)
            self._ask()
        self.now_us = until_us

    def _arrive(self, forth: bool, message: Message) -> None:
        if isinstance(message, Numbered):
            if self.receiver.on_numbered(message, self.now_us):
                self.got.append(message.publication.seq)
            self._ask()
        elif isinstance(message, HighestSent):
            self.receiver.on_latest(message, self.now_us)
            self._ask()
        elif isinstance(message, Nack):
            assert not forth
            for each in self.sender.on_missing(message, self.now_us):
                self.carry(each, True)

    def _ask(self) -> None:
        if self.receiver.due_us is not None and self.receiver.due_us <= self.now_us:
            request = self.receiver.ask(self.now_us)
            if request is not None:
                self.carry(request, False)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    loss=st.sampled_from([0.0, 0.1, 0.5]),
    jitter_us=st.sampled_from([0, 500, 20_000]),
    doubled=st.sampled_from([0.0, 0.2]),
    gaps_us=st.lists(st.sampled_from([0, 10, 1_000, 100_000]), min_size=1, max_size=80),
)
def test_every_event_passes_exactly_once(
    seed: int, loss: float, jitter_us: int, doubled: float, gaps_us: list[int]
) -> None:
    link = Link(seed, loss, jitter_us, doubled)
    for number, gap_us in enumerate(gaps_us, 1):
        link.publish(number)
        link.pass_time(link.now_us + gap_us)
    link.pass_time(link.now_us + 10**12)
    assert sorted(link.got) == list(range(1, len(gaps_us) + 1))
    assert len(link.receiver) == link.receiver.given_up == 0


def test_each_loss_costs_one_transmission_where_nothing_overtakes() -> None:
    link = Link(1, 0.1)
    for number in range(1, 10_001):
        link.publish(number)
        link.pass_time(link.now_us + 2 * MS)
    link.pass_time(link.now_us + 10**9)
    assert sorted(link.got) == list(range(1, 10_001))
    assert link.sent["again"] / link.sent["Numbered"] == pytest.approx(0.1 / 0.9, rel=0.08)  # the geometric series


def test_events_that_overtake_each_other_are_hardly_ever_asked_for_once_that_is_known() -> None:
    link = Link(1, 0.0, jitter_us=20 * MS)
    for number in range(1, 2_001):
        link.publish(number)
        link.pass_time(link.now_us + 2 * MS)
    link.pass_time(link.now_us + 10**9)
    assert sorted(link.got) == list(range(1, 2_001))
    assert link.sent.get("again", 0) < 60


def test_a_loss_is_asked_for_when_the_next_event_comes_and_answered_at_once() -> None:
    receiver, sender = NackReceiver(SETTINGS, 0), NackSender(5, SETTINGS)
    first, second, third = (sender.send(event(number), 0) for number in (1, 2, 3))
    assert receiver.on_numbered(first, 100)
    assert receiver.on_numbered(third, 300)
    request = receiver.ask(300)
    assert request == Nack(5, (2,))
    assert sender.on_missing(request, 10) == [Numbered(5, 2, True, second.publish)]
    assert receiver.on_numbered(Numbered(5, 2, True, second.publish), 500)
    assert not receiver.on_numbered(second, 501)  # a double


def test_a_loss_at_the_end_is_found_by_the_heartbeat_of_an_idle_link() -> None:
    sender, receiver = NackSender(5, SETTINGS), NackReceiver(SETTINGS, 0)
    sender.send(event(1), 0)
    assert sender.due_us == SETTINGS.idle_us
    latest = sender.on_timer(SETTINGS.idle_us)
    assert latest == HighestSent(5, 1, 1)
    receiver.on_latest(latest, 30 * MS)
    assert receiver.ask(30 * MS) == Nack(5, (1,))


def test_an_idle_link_falls_silent() -> None:
    sender = NackSender(5, SETTINGS)
    sender.send(event(1), 0)
    beats = 0
    while sender.due_us is not None:
        beats += sender.on_timer(sender.due_us) is not None
    assert beats == SETTINGS.beats


def test_what_is_asked_for_too_often_is_given_up() -> None:
    receiver = NackReceiver(NackSettings(tries=3), 0)
    receiver.on_numbered(Numbered(5, 2, False, event(2)), 0)
    asked = 0
    while receiver.due_us is not None:
        asked += receiver.ask(receiver.due_us) is not None
    assert (asked, receiver.given_up, len(receiver)) == (3, 1, 0)


def test_what_the_sender_no_longer_has_is_given_up_at_once() -> None:
    settings = NackSettings(ring=4)
    sender, receiver = NackSender(5, settings), NackReceiver(SETTINGS, 0)
    receiver.on_numbered(sender.send(event(1), 0), 0)
    sent = [sender.send(event(number), 0) for number in range(2, 10)]
    receiver.on_numbered(sent[-1], 10)
    request = receiver.ask(10)
    assert request is not None
    *again, latest = sender.on_missing(request, 10)
    assert [each.seq for each in again if isinstance(each, Numbered)] == [6, 7, 8]
    assert isinstance(latest, HighestSent)
    receiver.on_latest(latest, 20)
    assert (receiver.given_up, len(receiver)) == (4, 3)


def test_both_ends_stay_within_their_ring() -> None:
    settings = NackSettings(ring=16)
    sender, receiver = NackSender(5, settings), NackReceiver(settings, 0)
    for number in range(1, 1_000, 3):
        for each in range(number, number + 3):
            last = sender.send(event(each), 0)
        receiver.on_numbered(last, 0)
        assert len(sender) <= 16
        assert len(receiver) <= 16


def test_a_receiver_that_joins_late_does_not_ask_for_the_past() -> None:
    receiver = NackReceiver(SETTINGS, 0)
    assert receiver.on_numbered(Numbered(5, 10_000, False, event(1)), 0)
    assert receiver.due_us is None
    restarted = NackReceiver(SETTINGS, 60_000_000)
    assert restarted.on_numbered(Numbered(5, 10, False, event(1)), 60_000_000)
    assert restarted.due_us is None


def test_a_sender_that_began_anew_is_followed() -> None:
    receiver = NackReceiver(SETTINGS, 0)
    receiver.on_numbered(Numbered(5, 10_000, False, event(1)), 0)
    assert receiver.on_numbered(Numbered(6, 1, False, event(2)), 10)
    assert receiver.on_numbered(Numbered(6, 3, False, event(4)), 20)
    assert receiver.ask(20) == Nack(6, (2,))
    assert receiver.on_numbered(Numbered(5, 10_001, False, event(5)), 30)  # on its way since before


def test_brokers_repair_what_the_wires_between_them_lose() -> None:
    wires = Wires()
    wires.broker("b1", "b2", "b3")
    for name, node in wires.nodes.items():
        wires.nodes[name] = NackLayer(node, SETTINGS)  # type: ignore[arg-type]
    wires.link("b1", "b2")
    wires.link("b2", "b3")
    wires.client("left", "b1")
    wires.client("right", "b3", "n > 0")
    dice = Random(4)
    wires.loses = lambda sender, to, message: isinstance(message, Numbered | Nack | HighestSent) and dice.random() < 0.3
    for number in range(1, 201):
        wires.give("left", PublishCall({"n": number}))
        wires.pass_time(1_000)
    wires.pass_time(10_000_000)
    assert sorted(each["n"] for _, each in wires.delivered) == list(range(1, 201))


def test_a_stranger_gets_nothing_kept_about_it() -> None:
    wires = Wires()
    wires.broker("b1")
    broker = NackLayer(wires.nodes["b1"], SETTINGS)  # type: ignore[arg-type]
    effects: list[Effect] = []
    for number in (2, 4, 6):
        effects += broker.handle(Received("x", Numbered(1, number, False, event(number))), 0)
    assert all(isinstance(each, Incident | Send) for each in effects)
    assert broker.gauges()["missing on a link"][0] == 0
    broker.handle(LinkUp("b2", "broker"), 0)
    assert not any(isinstance(each, Send) and each.to == "x" for each in broker.handle(Wake(), broker.next_due_us()))
