"""What brokers say to each other to recover losses, and when they say nothing."""

import pytest

from holdfast.model.messages import (
    GossipComplete,
    GossipDigest,
    GossipEvent,
    GossipPull,
    GossipRequest,
    GossipVector,
    Message,
    Publication,
    Publish,
    Stamp,
    Stamped,
)
from holdfast.protocol.effects import Incident, Received
from holdfast.protocol.gossip.settings import GossipSettings, StyleName, Transfer
from holdfast.protocol.settings import Routing
from tests.protocol.wires import Wires

ROUND_US = 30_000


def line(style: StyleName, transfer: Transfer = "overlay", routing: Routing = "subscriptions", **more: object) -> Wires:
    """Four brokers in a row; `west` publishes at one end, `mid` and `east` want everything with p."""
    wires = Wires(routing, GossipSettings(style, forward_ratio=1.0, transfer=transfer, **more))  # type: ignore[arg-type]
    wires.broker("b1", "b2", "b3", "b4")
    for one, other in (("b1", "b2"), ("b2", "b3"), ("b3", "b4")):
        wires.link(one, other)
    wires.client("west", "b1")
    wires.client("mid", "b2", "p = 1")
    wires.client("east", "b4", "p = 1")
    wires.pass_time(10_000)
    return wires


def losing(wires: Wires, sender: str, to: str) -> None:
    wires.loses = lambda one, other, message: (one, other) == (sender, to) and isinstance(message, Publish | Stamped)


def spoken(wires: Wires, *kinds: type[Message]) -> list[tuple[str, str, Message]]:
    return [each for each in wires.sent if isinstance(each[2], kinds)]


GOSSIP = (GossipDigest, GossipPull, GossipVector, GossipComplete, GossipRequest, GossipEvent)
STYLES: list[StyleName] = ["push", "subscriber-pull", "publisher-pull", "combined-pull", "random-pull", "reconcile"]


@pytest.mark.parametrize("transfer", ["overlay", "direct"])
@pytest.mark.parametrize("routing", ["subscriptions", "destinations"])
@pytest.mark.parametrize("style", STYLES)
def test_a_lost_event_is_recovered_in_every_style(style: StyleName, routing: Routing, transfer: Transfer) -> None:
    wires = line(style, transfer, routing)
    losing(wires, "b3", "b4")
    assert wires.publish("west", p=1, n=1) == ["mid"]
    wires.loses = lambda *_: False
    wires.publish("west", p=1, n=2)  # from its number, b4 sees what it has missed
    wires.pass_time(40 * ROUND_US)
    assert sorted(event["n"] for name, event in wires.delivered if name == "east") == [1, 2]  # type: ignore[type-var]
    assert sorted(event["n"] for name, event in wires.delivered if name == "mid") == [1, 2]  # type: ignore[type-var]


@pytest.mark.parametrize("style", STYLES)
def test_brokers_say_nothing_when_nothing_has_happened(style: StyleName) -> None:
    wires = line(style)
    wires.pass_time(5_000_000)
    assert not spoken(wires, *GOSSIP)


@pytest.mark.parametrize("style", ["subscriber-pull", "publisher-pull", "combined-pull", "random-pull"])
def test_who_pulls_says_nothing_while_nothing_is_lost(style: StyleName) -> None:
    wires = line(style)
    for n in range(10):
        assert wires.publish("west", p=1, n=n) == ["east", "mid"]
        wires.pass_time(ROUND_US)
    assert not spoken(wires, *GOSSIP)


def test_vectors_go_to_an_origin_that_has_fallen_silent_ever_more_rarely_and_then_not_at_all() -> None:
    wires = line("reconcile")
    wires.publish("west", p=1)
    wires.pass_time(100_000_000)
    said = len(spoken(wires, GossipVector))
    assert said > 0
    wires.pass_time(100_000_000)
    assert len(spoken(wires, GossipVector)) == said


def test_the_last_events_before_a_silence_are_recovered_without_anybody_noticing_the_loss() -> None:
    wires = line("reconcile")
    wires.publish("west", p=1, n=1)
    losing(wires, "b2", "b3")
    wires.publish("west", p=1, n=2)
    wires.loses = lambda *_: False
    wires.pass_time(3_000_000)
    assert [event["n"] for name, event in wires.delivered if name == "east"] == [1, 2]


def test_an_origin_is_asked_soon_again_until_it_says_that_this_was_all() -> None:
    wires = line("reconcile")
    wires.publish("west", p=1, n=1)
    losing(wires, "b2", "b3")
    wires.publish("west", p=1, n=2)
    in_vain = iter(range(5))
    wires.loses = lambda one, other, message: (
        isinstance(message, GossipVector) and (one, other) == ("b4", "b3") and next(in_vain, None) is not None
    )
    wires.pass_time(7_000_000)
    assert [event["n"] for name, event in wires.delivered if name == "east"] == [1, 2]
    assert [message for *route, message in spoken(wires, GossipComplete) if route == ["b3", "b4"]]
    said = len(spoken(wires, GossipVector))
    wires.pass_time(500_000)
    assert len(spoken(wires, GossipVector)) - said <= 3  # b2, b3 and b4 at most once each: they know


def test_an_origin_that_is_gone_is_asked_a_while_and_then_no_more() -> None:
    wires = line("reconcile")
    wires.publish("west", p=1)
    wires.loses = lambda one, other, message: "b1" in (one, other)
    wires.pass_time(60_000_000)
    said = len(spoken(wires, GossipVector))
    wires.pass_time(60_000_000)
    assert len(spoken(wires, GossipVector)) == said


def test_a_broker_that_was_down_gets_what_it_missed() -> None:
    wires = line("reconcile")
    wires.publish("west", p=1, n=1)
    losing(wires, "b3", "b4")  # as if b4 were down
    wires.publish("west", p=1, n=2)
    wires.pass_time(100_000)
    wires.loses = lambda *_: False
    wires.restart("b4")
    wires.pass_time(2_000_000)
    wires.publish("west", p=1, n=3)
    wires.pass_time(3_000_000)
    assert sorted(event["n"] for name, event in wires.delivered if name == "east") == [1, 2, 3]  # type: ignore[type-var]


def test_push_ends_when_the_buffer_is_too_old_to_matter() -> None:
    wires = line("push", kept_us=1_000_000)
    wires.publish("west", p=1)
    wires.pass_time(2_000_000)
    said = len(spoken(wires, GossipDigest))
    assert said > 0
    wires.pass_time(5_000_000)
    assert len(spoken(wires, GossipDigest)) == said


def test_an_adaptive_push_speaks_less_while_nobody_asks() -> None:
    said = {}
    for adaptive in (False, True):
        wires = line("push", adaptive=adaptive)
        wires.publish("west", p=1)
        wires.pass_time(3_000_000)
        said[adaptive] = len(spoken(wires, GossipDigest))
    assert said[True] < said[False] / 5


def test_a_pull_ends_at_the_first_broker_that_has_all() -> None:
    wires = line("publisher-pull")
    losing(wires, "b3", "b4")
    wires.publish("west", p=1, n=1)
    wires.loses = lambda *_: False
    wires.publish("west", p=1, n=2)
    wires.pass_time(5 * ROUND_US)
    # b2 kept it for its own client, so nothing is asked of the publisher's broker.
    assert [(one, other) for one, other, _ in spoken(wires, GossipPull)] == [("b4", "b3"), ("b3", "b2")]
    assert [(one, other) for one, other, _ in spoken(wires, GossipEvent)] == [("b2", "b3"), ("b3", "b4")]


def test_a_lost_event_is_given_up_after_a_while() -> None:
    wires = line("subscriber-pull", lost_us=1_000_000)
    wires.loses = lambda one, other, message: (
        isinstance(message, GossipEvent)
        or ((one, other) == ("b3", "b4") and isinstance(message, Stamped) and message.publication.seq == 1)
    )
    wires.publish("west", p=1, n=1)
    wires.publish("west", p=1, n=2)
    wires.pass_time(2_000_000)
    said = len(spoken(wires, GossipPull))
    assert said > 10
    wires.pass_time(5_000_000)
    assert len(spoken(wires, GossipPull)) == said


def test_an_event_from_before_a_subscription_is_not_handed_out() -> None:
    wires = line("push")
    wires.pass_time(5_000_000)
    wires.publish("west", p=1, n=1)
    wires.pass_time(1_000)
    wires.client("late", "b3", "p = 1")
    wires.pass_time(10 * ROUND_US)
    assert "late" not in [name for name, _ in wires.delivered]
    assert wires.publish("west", p=1, n=2) == ["east", "late", "mid"]


def test_a_covered_condition_is_still_a_class_of_its_own() -> None:
    wires = line("subscriber-pull")
    wires.client("wide", "b2", "p > 0")
    assert wires.told("b2", "b1") == {"p = 1", "p > 0"}
    losing(wires, "b3", "b4")
    wires.publish("west", p=1)
    wires.loses = lambda *_: False
    wires.publish("west", p=1)
    wires.pass_time(5 * ROUND_US)
    assert len([name for name, _ in wires.delivered if name == "east"]) == 2


def test_gossip_from_a_client_is_refused() -> None:
    wires = line("push")
    forged = GossipEvent(Publication("west", 9, 0, None, {"p": 1}), Stamp("b1", 0, ()))
    assert wires.nodes["b4"].handle(Received("east", forged), wires.now_us) == [Incident("unexpected_message", "east")]


def test_digests_about_unknown_classes_and_broken_ways_end_in_nothing() -> None:
    wires = line("combined-pull")
    broker = wires.nodes["b2"]
    for message in (
        GossipDigest(("b9",), 123, (("x", (1, 2)),)),
        GossipPull(("b9",), (("b9", 0, 123, (1,)),), 123),
        GossipPull(("b9",), (("b9", 0, 123, (1,)),), None, ("b9", "b8")),
        GossipVector(("b9",), 5, ((123, 1, 0, (1,)),)),
        GossipRequest(("b9",), (("x", (1,)),)),
        GossipEvent(Publication("x", 1, 0, None, {"z": 1}), None, ("b9",)),
        GossipEvent(Publication("x", 1, 0, None, {"z": 1})),
    ):
        assert broker.handle(Received("b1", message), wires.now_us) == []
