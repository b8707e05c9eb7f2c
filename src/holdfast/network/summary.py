"""What a network file describes, in a few numbers: what `holdfast check` prints."""

from dataclasses import dataclass

from holdfast.network.graph import measure
from holdfast.network.schema import Network
from holdfast.network.workload.files import Files
from holdfast.network.workload.workloads import Silent


@dataclass(frozen=True)
class Summary:
    name: str
    routing: str
    duration_s: float
    seed: int
    brokers: int
    links: int
    mean_distance: float  # in links, over all pairs of brokers
    diameter: int
    distances_exact: bool
    clients: int
    publishers: int
    subscribers: int
    subscriptions: int
    workload: str
    publications_per_s: float | None  # while the workload publishes; None when only a file knows
    faults: int
    warnings: tuple[str, ...]


def summarize(network: Network) -> Summary:
    far = measure(network.neighbours())
    return Summary(
        name=network.name,
        routing=network.routing,
        duration_s=network.duration_us / 1_000_000,
        seed=network.seed,
        brokers=len(network.brokers),
        links=len(network.links),
        mean_distance=far.mean,
        diameter=far.diameter,
        distances_exact=far.exact,
        clients=len(network.clients),
        publishers=sum(client.publishes for client in network.clients),
        subscribers=sum(bool(client.subscriptions) for client in network.clients),
        subscriptions=sum(len(client.subscriptions) for client in network.clients),
        workload="none" if isinstance(network.workload, Silent) else type(network.workload).__name__.lower(),
        publications_per_s=publications_per_s(network),
        faults=len(network.faults),
        warnings=network.warnings,
    )


def publications_per_s(network: Network) -> float | None:
    own = sum(each.mean_per_s(network.duration_us) for client in network.clients for each in client.schedule)
    workload = network.workload
    if isinstance(workload, Silent):
        return own
    if isinstance(workload, Files):
        return None if workload.time is not None else own + workload.traffic.mean_per_s() * bool(workload.events)
    return own + workload.traffic.mean_per_s() * sum(client.works for client in network.clients)
