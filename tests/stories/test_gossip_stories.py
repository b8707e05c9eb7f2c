"""Brokers that recover losses among themselves, simulated and over loopback sockets: both end with everything."""

from typing import Any

import pytest

from holdfast.model.errors import InputError
from holdfast.net.clock import Clock
from holdfast.net.live import LiveRun
from holdfast.network.load import parse_text
from holdfast.network.schema import Network
from tests.stories.test_stories import Ear, heard, simulated, story


def lossy(gossip: str, **settings: Any) -> Network:
    """Some 130 events over three links, each of which loses a tenth."""
    return parse_text(
        story("subscriptions", 4.0, every_s=0.05).text,
        settings={
            "links.loss": 0.1,
            "transport.kind": "udp",
            "reliability.gossip": gossip,
            **{key.replace("__", "."): value for key, value in settings.items()},
        },
    )


def test_what_links_lose_brokers_recover_live_as_in_the_simulator() -> None:
    everything = simulated(parse_text(lossy("none").text, settings={"links.loss": 0}))
    assert simulated(lossy("reconcile")) == everything
    found = heard(lossy("reconcile"))
    assert len(found) == len(set(found))
    assert set(found) == everything


@pytest.mark.slow
@pytest.mark.parametrize("style", ["push", "combined-pull"])
def test_together_with_clients_that_recover_nothing_arrives_twice(style: str) -> None:
    everything = simulated(parse_text(lossy("none").text, settings={"links.loss": 0}))
    found = heard(lossy(style, reliability__recovery="end-to-end"))
    assert len(found) == len(set(found))
    assert set(found) == everything


@pytest.mark.slow
def test_a_broker_that_was_down_gets_what_it_missed_live() -> None:
    crash = {"kind": "crash", "broker": "b3", "at_s": 1.4, "for_s": 0.6}
    network = parse_text(
        story("subscriptions", 5.0, crash, every_s=0.1).text, settings={"reliability.gossip": "reconcile"}
    )
    everything = simulated(story("subscriptions", 5.0, every_s=0.1))
    assert simulated(network) == everything
    assert set(heard(network)) == everything


def test_live_brokers_have_no_other_way_than_their_links() -> None:
    network = lossy("push", reliability__gossip_transfer="direct")
    with pytest.raises(InputError, match='use "overlay"'):
        LiveRun(network, 1, lambda name: None, Ear(), Clock())  # type: ignore[arg-type,return-value]
