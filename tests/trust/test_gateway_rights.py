"""A gateway is a client: its log holds what it has a right to, and it publishes what it has a right to."""

from pathlib import Path

from holdfast.trust.authority import DevelopmentAuthority
from holdfast.trust.settings import TrustSettings
from tests.net.harness import lab, live, until, values
from tests.net.test_gateway import USUAL, client_of, gateway, listening_to, logged

RIGHTS = """
[[right]]
who = "archive"
publish = "class = 'order'"
subscribe = "class = 'stock'"
narrow = true

[[right]]
who = "feed"
publish = "TRUE"
subscribe = "TRUE"
"""


@live
async def test_a_gateway_logs_and_publishes_within_its_right_and_replays_nothing_else(tmp_path: Path) -> None:
    authority = DevelopmentAuthority(tmp_path, 30)
    for name in ("archive", "feed"):
        authority.issue(name)
    (tmp_path / "rights.toml").write_text(RIGHTS)
    trust = TrustSettings(token_keys=tmp_path / "issuer.json", rights=tmp_path / "rights.toml")
    async with lab() as net:
        broker = await net.broker("b1", protocol=USUAL, trust=trust)
        feed = await net.client(broker, name="feed", token=str(tmp_path / "feed.token"))
        orders = feed.subscribe("n >= 0")
        await feed.flush()
        own = {"name": "archive", "token": str(tmp_path / "archive.token"), "streams": {"all": "n >= 0"}}
        async with gateway(tmp_path / "gw", broker, **own) as made, client_of(made) as client:
            await listening_to(made, broker)
            await until(lambda: broker.counters.incidents.get("subscription_narrowed"))
            await feed.flush()
            for n, kind in enumerate(("stock", "order", "stock", "news")):
                await feed.publish({"n": n, "class": kind})
            found = await logged(client, (await client.streams())[0], 2)  # a reader that comes later gets no more
            assert [each.event["n"] for each in found] == [0, 2]
            rows = [{"n": 10, "class": "order"}, {"n": 11, "class": "stock"}]
            await client.publish(rows, "q", 0)
            await until(lambda: broker.counters.incidents.get("publication_refused"))
            mine = [each for each in values([await anext(orders) for _ in range(5)]) if each >= 10]
            assert mine == [10]
