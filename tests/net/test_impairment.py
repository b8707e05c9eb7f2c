"""A live run on one machine can show what a wide-area run would: messages are lost and delayed as the file says."""

from holdfast.network.schema import LinkSpec
from holdfast.sim.links import SimLink as ModelledLink
from tests.net.harness import Recorder, lab, live, settled, take, until, values


def impaired(**spec: float) -> dict[str, object]:
    """Settings of a broker whose link to b2 does this to messages."""
    return {"impairments": {"b2": ModelledLink(LinkSpec("b1", "b2", **spec), 7, "b1", "b2")}}  # type: ignore[arg-type]


@live
async def test_an_injected_delay_is_seen_by_the_subscriber() -> None:
    async with lab() as net:
        b1 = await net.broker("b1", **impaired(delay_us=30_000))
        b2 = await net.broker("b2", peers={"b1": b1.listening[0]})
        publisher, subscriber = await net.client(b1), await net.client(b2)
        wanted = subscriber.subscribe("n >= 0")
        await settled(subscriber, publisher)
        for n in range(100):
            await publisher.publish({"n": n})
        deliveries = await take(wanted, 100)
        assert values(deliveries) == list(range(100))
        assert min(each.delay for each in deliveries) >= 0.030


@live
async def test_jitter_lets_messages_overtake_each_other() -> None:
    async with lab() as net:
        b1 = await net.broker("b1", **impaired(delay_us=20_000, jitter_us=20_000))
        b2 = await net.broker("b2", peers={"b1": b1.listening[0]})
        publisher, subscriber = await net.client(b1), await net.client(b2)
        wanted = subscriber.subscribe("n >= 0")
        await settled(subscriber, publisher)
        for n in range(200):
            await publisher.publish({"n": n})
        arrived = values(await take(wanted, 200))
        assert sorted(arrived) == list(range(200))
        assert arrived != sorted(arrived)


@live
async def test_an_injected_loss_takes_its_share_and_is_counted() -> None:
    async with lab() as net:
        b1 = await net.broker("b1", **impaired(delay_us=0, loss_ratio=0.3), lossy_control=False)
        b2 = await net.broker("b2", peers={"b1": b1.listening[0]})
        publisher, subscriber = await net.client(b1), await net.client(b2)
        wanted = subscriber.subscribe("n >= 0", queue_max=5_000)
        await settled(subscriber, publisher)
        before = b1.counters.lost
        for n in range(5_000):
            await publisher.publish({"n": n})
        await publisher.flush()
        lost = b1.counters.lost - before
        assert abs(lost - 1_500) < 3 * (5_000 * 0.3 * 0.7) ** 0.5  # three standard errors; the dice are seeded
        await until(lambda: wanted.waiting == 5_000 - lost)


@live
async def test_lost_control_messages_heal_by_themselves() -> None:
    async with lab() as net:
        b1 = await net.broker("b1", **impaired(delay_us=0, loss_ratio=0.6))
        back = {"b1": ModelledLink(LinkSpec("b1", "b2", loss_ratio=0.6), 7, "b2", "b1")}
        b2 = await net.broker("b2", peers={"b1": b1.listening[0]}, impairments=back)
        publisher, subscriber = await net.client(b1), await net.client(b2)
        for _ in range(3):
            await settled(subscriber, publisher)  # a subscription comes, is heard of in spite of the losses, and goes
        assert b1.counters.lost > 0
        assert b2.counters.lost > 0


@live
async def test_an_event_that_is_late_is_not_delivered_and_the_trace_can_say_so() -> None:
    async with lab() as net:
        recorder = Recorder()
        b1 = await net.broker("b1", **impaired(delay_us=50_000))
        b2 = await net.broker("b2", peers={"b1": b1.listening[0]}, recorder=recorder)
        publisher, subscriber = await net.client(b1, name="p"), await net.client(b2)
        wanted = subscriber.subscribe("n >= 0")
        await settled(subscriber, publisher)
        seq = await publisher.publish({"n": 1}, lifetime=0.01)
        await publisher.publish({"n": 2}, lifetime=60)
        assert values([await anext(wanted)]) == [2]
        assert [(each.kind, each.source, each.first) for each in recorder.incidents] == [("expired", "p", seq)]
