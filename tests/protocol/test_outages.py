"""Links between brokers that were down: what is told of them, to whom, and that it ends."""

from itertools import combinations
from random import Random

import pytest

from holdfast.matching.index import Index
from holdfast.model.messages import Message, NodeKind, Outage, Reachable
from holdfast.protocol.effects import LinkUp
from holdfast.protocol.parts import BrokerParts
from holdfast.protocol.settings import Reliability
from holdfast.protocol.stack import new_broker
from tests.protocol.wires import BEAT_US, SETTINGS, Wires


class Lossless(Wires):
    """Brokers whose links lose nothing, and whose ends are noticed."""

    def broker(self, *names: str) -> None:
        for name in names:
            dice = Random(f"0/{name}")
            parts = BrokerParts(name, self._routing, SETTINGS, self._book, Index, self.now_us, dice)
            self.nodes[name] = new_broker(parts, Reliability())

    def link(self, a: str, b: str, kind: NodeKind = "broker", hears_outages: bool = True) -> None:
        """`hears_outages`: whether b is of a version that knows those that last. A client only listens."""
        self._handle(a, LinkUp(b, kind, reliable=True, hears_outages=hears_outages))
        if b in self.nodes:
            self.links |= {(a, b): None, (b, a): None}
            self._handle(b, LinkUp(a, "broker", reliable=True))
        self._carry()

    def heard_by(self, to: str, *kinds: type) -> list[Message]:
        return [message for _, name, message in self.sent if name == to and isinstance(message, kinds)]


def blip(wires: Lossless) -> None:
    wires.cut("b1", "b2")
    wires.pass_time(BEAT_US)
    wires.link("b1", "b2")
    wires.pass_time(4 * BEAT_US)


def pair() -> Lossless:
    wires = Lossless()
    wires.broker("b1", "b2")
    wires.link("b1", "b2")
    wires.pass_time(4 * BEAT_US)
    return wires


def test_an_outage_of_a_link_over_which_nobody_wants_anything_ends() -> None:
    wires = pair()
    blip(wires)
    wires.link("b1", "c", "client")
    assert not wires.heard_by("c", Outage)


def test_an_outage_ends_although_a_broker_behind_the_link_is_still_down() -> None:
    wires = pair()
    wires.broker("b3")
    wires.link("b2", "b3")
    wires.pass_time(4 * BEAT_US)
    wires.cut("b2", "b3")
    blip(wires)
    wires.link("b1", "c", "client")
    told = [each for each in wires.heard_by("c", Outage) if isinstance(each, Outage)]
    assert {(each.one, each.other) for each in told} == {("b2", "b3")}


def test_a_client_of_version_0_2_is_told_of_outages_that_are_over_and_of_nothing_that_it_does_not_know() -> None:
    wires = pair()
    wires.link("b1", "old", "client", hears_outages=False)
    wires.link("b1", "new", "client")
    blip(wires)
    assert wires.heard_by("new", Reachable)
    assert not wires.heard_by("old", Reachable)
    assert [each.lasts for each in wires.heard_by("old", Outage) if isinstance(each, Outage)] == [False]


@pytest.mark.parametrize("brokers", [4, 6])
def test_reports_do_not_go_round_where_links_are_no_tree(brokers: int) -> None:
    wires = Lossless("destinations")
    names = [f"b{number}" for number in range(brokers)]
    wires.broker(*names)
    for a, b in combinations(names, 2):
        wires.link(a, b)
    wires.pass_time(4 * BEAT_US)
    told = [message for _, _, message in wires.sent if isinstance(message, Outage)]
    links = brokers * (brokers - 1)  # each end tells of it, that it lasts and that it is over: once over every link
    assert len(told) <= 2 * links * links
