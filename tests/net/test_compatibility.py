"""A peer of an older version is sent only messages that it knows."""

from typing import cast

import pytest

from holdfast.model.messages import Batch, Deliver, Delta, Heartbeat, Reachable
from holdfast.wire.signals import LEVEL, LISTS, STATEMENTS, Hello, Welcome
from tests.net.harness import lab, live, settled
from tests.net.raw import RawPeer

EVENTS = 200


@pytest.mark.parametrize("level", [STATEMENTS, LEVEL])
@live
async def test_who_does_not_know_lists_gets_events_without_them(level: int) -> None:
    """A list would make a node of version 0.2 take the frame for damaged and close the connection."""
    async with lab() as net:
        broker = await net.broker("b1")
        publisher = await net.client(broker)
        async with RawPeer(broker.listening[0]) as peer:
            peer.signal(Hello("peer", "client", 1, level=level))
            await peer.heard_signal()
            peer.say(Heartbeat(1, ((0, 0), (0, 0)), kind="client"), Delta("subscriptions", 1, ("n >= 0",), ()))
            await settled(publisher)
            sent = [{"n": 0, "tags": ["a", None]}, {"n": 1}, {"n": 2, "sizes": [], "name": "x"}]
            for event in sent:
                await publisher.publish(event)
            await publisher.publish({"n": 3, "tags": ["b"]}, b"with a payload", lifetime=60)
            got: list[object] = []
            while len(got) < 4:
                for message in await peer.heard():
                    if isinstance(message, Batch):
                        got += message.attributes
                    elif isinstance(message, Deliver) and message.publication.seq:
                        got.append(message.publication.attributes)
    sent.append({"n": 3, "tags": ["b"]})
    if level < LISTS:
        sent = [{name: value for name, value in event.items() if type(value) is not list} for event in sent]
    assert got == sent


@pytest.mark.parametrize("level", [0, STATEMENTS, LEVEL])
@live
async def test_only_who_knows_statements_gets_them(level: int) -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        publisher = await net.client(broker, recovery=True)
        async with RawPeer(broker.listening[0]) as peer:
            peer.signal(Hello("peer", "client", 1, level=level))
            assert cast(Welcome, await peer.heard_signal()).level == LEVEL
            peer.say(Heartbeat(1, ((0, 0), (0, 0)), kind="client"), Delta("subscriptions", 1, ("n >= 0",), ()))
            await settled(publisher)
            for n in range(EVENTS):
                await publisher.publish({"n": n})
            seqs: list[int] = []
            stated = 0
            while len(seqs) < EVENTS:
                for message in await peer.heard():
                    assert level == LEVEL or not isinstance(message, Reachable), "which version 0.2 does not know"
                    if isinstance(message, Batch):
                        seqs += message.seqs
                        assert message.seqs or level, "a statement alone is no batch to version 0.1"
                        stated = max(stated, message.upto if message.since <= message.upto else 0)
                    elif isinstance(message, Deliver) and message.publication.seq:
                        seqs.append(message.publication.seq)
        assert seqs == list(range(seqs[0], seqs[0] + EVENTS))
        assert bool(stated) == bool(level)
