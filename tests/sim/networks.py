"""Small networks for tests, as plain values."""

from itertools import pairwise

from holdfast.network.schema import BrokerSpec, ClientSpec, LinkSpec, Network, SubscriptionSpec
from holdfast.network.workload.listed import Scheduled
from holdfast.network.workload.publication import PublishingWindow
from holdfast.network.workload.workloads import Silent

SECOND = 1_000_000


def line(hops: int, every_us: int, duration_us: int, lifetime_us: int | None = None, **link: object) -> Network:
    """A publisher and a subscriber at the two ends of a line with this many links."""
    names = [f"b{n}" for n in range(hops + 1)]
    links = [LinkSpec(a, b, **link) for a, b in pairwise(names)]  # type: ignore[arg-type]
    published = Scheduled(SECOND, {"x": 1}, every_us, lifetime_us=lifetime_us)
    return network(
        [BrokerSpec(name) for name in names],
        links,
        [
            ClientSpec("publisher", names[0], publishes=True, schedule=(published,)),
            ClientSpec("subscriber", names[-1], (SubscriptionSpec("all", "x = 1"),)),
        ],
        duration_us,
    )


def network(brokers: list[BrokerSpec], links: list[LinkSpec], clients: list[ClientSpec], duration_us: int) -> Network:
    return Network(
        name="test",
        seed=1,
        duration_us=duration_us,
        routing="subscriptions",
        brokers=tuple(brokers),
        links=tuple(links),
        clients=tuple(clients),
        workload=Silent(),
        window=PublishingWindow(0, duration_us),
        lossy_control=False,
    )
