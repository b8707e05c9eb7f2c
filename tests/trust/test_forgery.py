"""One forged publication does not silence a source: its own broker vouches for its name and its numbers."""

from typing import Any

import pytest

from holdfast.model.messages import Batch, Heartbeat, Publication, Publish
from holdfast.protocol.effects import Incident
from holdfast.wire.signals import Refusal, Welcome
from tests.net.harness import lab, live, settled, take, until, values
from tests.trust.doors import Doors, greeted

FAR = 2**62
GENUINE = 50
RELIABILITIES: dict[str, dict[str, Any]] = {
    "plain": {},
    "recovery": {"recovery": True},
    "strict": {"order": "strict", "recovery": True},
    # Who asks for nothing waits five seconds for a probe that was published before its subscription was known.
    "strict alone": {"order": "strict"},
}


def forged(source: str, seq: int) -> Publish:
    return Publish(Publication(source, seq, 1, None, {"n": -1}, b""))


@pytest.mark.parametrize(
    "reliability", ["plain", "recovery", "strict", pytest.param("strict alone", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(("name", "kind"), [("b9", "broker"), ("mallory", "client"), ("feed", "client")])
@live
async def test_a_forged_number_does_not_silence_a_source(doors: Doors, name: str, kind: Any, reliability: str) -> None:
    async with lab() as net:
        b1, b2 = await doors.pair(net)
        subscriber = await doors.connected(net, b2, "desk", **RELIABILITIES[reliability])
        wanted = subscriber.subscribe("n IS NOT NULL")
        other = await doors.connected(net, b1, "other")
        await settled(subscriber, other)
        async with doors.mallory(b2) as peer:
            answer = await greeted(peer, name, kind)
            assert isinstance(answer, Refusal | Welcome)
            peer.say(Heartbeat(1, ((0, 0), (0, 0)), kind=kind), forged("feed", FAR))
            peer.say(Batch((FAR - 1, FAR), "feed", (1, 1), ({"n": -1}, {"n": -1}), (), 0))
            if isinstance(answer, Welcome):
                await until(lambda: sum(b2.counters.incidents.get(each, 0) for each in FORGERIES) == 3)
            publisher = await doors.connected(net, b1, "feed", **RELIABILITIES[reliability])
            await settled(subscriber, publisher)
            for n in range(GENUINE):
                await publisher.publish({"n": n})
            assert values(await take(wanted, GENUINE)) == list(range(GENUINE))


FORGERIES = ("forged_source", "forged_number")


def test_a_broker_does_not_vouch_for_numbers_far_ahead_of_the_time() -> None:
    from holdfast.protocol.vouching import not_vouched_for

    now_us, day_us = 1_800_000_000_000_000, 86_400_000_000
    for seq in (1, now_us, now_us + day_us):
        assert not_vouched_for("feed", forged("feed", seq), now_us) is None
    assert not_vouched_for("feed", forged("feed", now_us + day_us + 1), now_us) == Incident("forged_number", "feed")
    stated = Batch((1,), "feed", (1,), ({},), (), 0, since=1, upto=FAR)
    assert not_vouched_for("feed", stated, now_us) == Incident("forged_number", "feed")
