"""At any time a subscription can say what became of its events."""

from holdfast.net.accounting import Account, Missing
from tests.net.harness import lab, live, settled, take, until
from tests.net.test_impairment import impaired


@live
async def test_what_was_taken_what_waits_and_what_was_dropped_add_up_to_what_came() -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        client = await net.client(broker)
        wanted = client.subscribe("n >= 0", queue_max=10)
        await client.flush()
        for n in range(5):
            await client.publish({"n": n})
        await until(lambda: wanted.waiting == 5)
        assert wanted.account() == Account(True, delivered=0, waiting=5, held=0, dropped=0, missing=(), lost=())
        await take(wanted, 2)
        for n in range(5, 20):
            await client.publish({"n": n})
        await until(lambda: wanted.account().dropped == 8)
        account = wanted.account()
        assert (account.delivered, account.waiting) == (2, 10)
        (loss,) = account.lost
        assert loss.events == 8
        assert not account.complete
        client.losses().take()
        assert wanted.account().lost == account.lost  # read or not


@live
async def test_what_is_looked_for_and_what_waits_for_it_is_told() -> None:
    async with lab() as net:
        b1 = await net.broker("b1", **impaired(delay_us=1_000))
        b2 = await net.broker("b2", peers={"b1": b1.listening[0]})
        feed = await net.client(b1, name="feed", recovery=True)
        desk = await net.client(b2, recovery=True, order="strict")
        wanted = desk.subscribe("n >= 0", queue_max=100)
        await settled(desk, feed)
        first = await feed.publish({"n": 0})
        await take(wanted, 1)
        await until(lambda: wanted.account().complete)
        link = b1.driver.links["b2"]
        link.impairment, healthy = _Loses(), link.impairment
        await feed.publish({"n": 1})
        await until(lambda: link.impairment.lost)  # type: ignore[union-attr]
        link.impairment = healthy
        await feed.publish({"n": 2})
        await until(lambda: wanted.account().held == 1)
        missing = wanted.account().missing
        assert all(each.source == "feed" for each in missing)
        assert [each.event["n"] for each in await take(wanted, 2)] == [1, 2]
        await until(lambda: wanted.account().complete)
        assert wanted.account().delivered == 3
        assert Missing("feed", first, first) not in wanted.account().missing


class _Loses:
    """A link that loses what comes first."""

    lost = 0

    def arrivals_us(self, size: int, now_us: int, may_be_lost: bool) -> tuple[int, ...]:
        self.lost += 1
        return ()
