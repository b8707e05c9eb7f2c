"""What a network is, as plain frozen values: the file in the units that machines use.

Times are whole microseconds, shares are ratios from 0 to 1, and nothing is left to be drawn but the publications
and the times of random failures, which the drivers draw from named dice. Two equal files give equal networks.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from heapq import merge
from operator import attrgetter
from random import Random
from typing import TYPE_CHECKING, Literal, NamedTuple

from holdfast.model.settings import setting
from holdfast.network.graph import neighbours_of
from holdfast.network.limits import DELAY_S_MAX, QUEUE_MAX, SERVERS_MAX
from holdfast.network.replacement import Replacer
from holdfast.network.settings import CarrierSettings, PlanSettings, TransportSettings
from holdfast.network.workload.listed import Scheduled, scheduled
from holdfast.network.workload.publication import PublishingWindow, ScheduledEvent, at_us_of
from holdfast.network.workload.workloads import Silent, Workload
from holdfast.protocol.replication.settings import ReplicationSettings
from holdfast.protocol.settings import ProtocolSettings, Reliability, Routing

if TYPE_CHECKING:
    from holdfast.network.document import Document

_DELAY_US_MAX = DELAY_S_MAX * 1_000_000
ServiceTime = Literal["fixed", "exponential"]
FaultKind = Literal[
    "crash",
    "restart",
    "hang",
    "resume",
    "link-down",
    "link-up",
    "link-replace",
    "client-detach",
    "client-attach",
    "subscribe",
    "unsubscribe",
]


@dataclass(frozen=True, slots=True)
class BrokerSpec:
    id: str
    service_us: int = setting(
        0,
        "mean time to handle a message",
        "the papers' models of loss have none",
        at_least=0,
        at_most=_DELAY_US_MAX,
        key="service_ms",
        drawn=True,
    )
    service: ServiceTime = setting(
        "fixed", "whether that time is always the same or random", "queues are shortest then", key="service"
    )
    queue_max: int = setting(
        10_000,
        "messages that may wait to be handled; one more is dropped and counted",
        "a second's worth at 10,000 a second",
        unit="messages",
        at_most=QUEUE_MAX,
        key="queue",
    )
    mtbf_us: int | None = None  # mean time up between random crashes; None never crashes by itself
    mttr_us: int | None = None  # mean time down
    listen: str | None = None  # host:port of the live broker; None lets the driver choose
    servers: int = setting(
        1,
        "messages that a broker with a service time handles at a time; with several, later ones overtake earlier ones",
        "most brokers keep the order of a link",
        unit="messages",
        at_most=SERVERS_MAX,
        key="servers",
    )


class Burst(NamedTuple):
    """Losses in bursts (Gilbert and Elliott): the link is good or bad, and may change with each message."""

    to_bad_ratio: float
    to_good_ratio: float
    loss_ratio: float  # while bad; while good the link's own loss holds


@dataclass(frozen=True, slots=True)
class LinkSpec:
    a: str
    b: str
    delay_us: int = setting(
        1_000,
        "one way",
        "two machines in one city",
        at_least=0,
        at_most=_DELAY_US_MAX,
        key="delay_ms",
        drawn=True,
    )
    jitter_us: int = setting(
        0,
        "the delay varies evenly by up to so much either way",
        "the papers' links have none",
        at_least=0,
        at_most=_DELAY_US_MAX,
        key="jitter_ms",
        drawn=True,
    )
    loss_ratio: float = setting(0.0, "share of messages lost", "a network that works", key="loss", drawn=True)
    burst: Burst | None = None
    bytes_per_s: int | None = setting(
        None,
        "capacity of each direction",
        "the papers' links have no limit",
        unit="bytes",
        at_most=10**12,
        key="bytes_per_s",
        otherwise="unlimited",
    )
    queue_max: int = setting(
        10_000,
        "messages that may wait for a link with a capacity; one more is dropped",
        "as for brokers",
        unit="messages",
        at_most=QUEUE_MAX,
        key="queue",
    )
    duplicate_ratio: float = setting(
        0.0, "share of messages that arrive twice", "a network that works", key="duplicate"
    )
    reorder_ratio: float = setting(
        0.0,
        "share of messages held up for a random while, so that others overtake them",
        "a network that works",
        key="reorder",
    )
    mtbf_us: int | None = None
    mttr_us: int | None = None
    message_us: int = 0  # that its end takes for a message of any size, where it has no capacity

    @property
    def loses(self) -> bool:
        return self.loss_ratio > 0 or self.burst is not None


@dataclass(frozen=True, slots=True)
class SubscriptionSpec:
    id: str  # unique among the client's subscriptions
    condition: str
    from_us: int = 0
    until_us: int | None = None
    group: str = ""  # that shares it


@dataclass(frozen=True, slots=True)
class ClientSpec:
    id: str
    broker: str
    subscriptions: tuple[SubscriptionSpec, ...] = ()
    advertisements: tuple[str, ...] = ()
    publishes: bool = False  # the workload's publications, those of its schedule, or both
    schedule: tuple[Scheduled, ...] = ()  # publications spelled out in the file
    works: bool = False  # publishes what the workload draws


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that happens at a given time; what a kind has no use for is None."""

    at_us: int
    kind: FaultKind
    broker: str | None = None  # crash, restart, client-attach
    link: tuple[str, str] | None = None  # link-down, link-up, link-replace
    to: tuple[str, str] | None = None  # link-replace: the new link
    after_us: int = 0  # link-replace: when the new link appears, counted from `at_us`
    client: str | None = None  # client-detach, client-attach, subscribe, unsubscribe
    subscription: str | None = None  # subscribe, unsubscribe: the subscription's id
    condition: str | None = None  # subscribe


class Reconfiguration(NamedTuple):
    """A random link breaks every so often and another one appears in its place (paper 001)."""

    every_us: int
    repair_us: int
    window: PublishingWindow


_NEVER = PublishingWindow(0, 0)


@dataclass(frozen=True)
class Network:
    name: str
    seed: int
    duration_us: int
    routing: Routing
    brokers: tuple[BrokerSpec, ...]
    links: tuple[LinkSpec, ...]
    clients: tuple[ClientSpec, ...]
    workload: Workload = field(default_factory=Silent)
    window: PublishingWindow = _NEVER  # in which the workload publishes
    reliability: Reliability = field(default_factory=Reliability)
    plan: PlanSettings = field(default_factory=PlanSettings)
    protocol: ProtocolSettings = field(default_factory=ProtocolSettings)
    lossy_control: bool = True  # links lose control messages as well as events
    transport: TransportSettings = field(default_factory=TransportSettings)
    carrier: CarrierSettings | None = None  # then its one broker stands for a bus
    faults: tuple[Fault, ...] = ()  # in the order of time
    reconfiguration: Reconfiguration | None = None
    slice_us: int | None = None  # events are also counted by when they were published, in slices of this length
    warnings: tuple[str, ...] = ()  # what is allowed but probably not meant
    document: "Document | None" = field(default=None, compare=False, repr=False)  # the file that describes it

    @property
    def text(self) -> str:
        """A network file that describes this network, with all settings in it."""
        return "" if self.document is None else self.document.toml()

    @property
    def replication(self) -> ReplicationSettings | None:
        """None: a broker that fails is not replaced."""
        return self.reliability.replication

    def neighbours(self) -> dict[str, list[str]]:
        """For each broker those it has a link with, both in the order of the file."""
        return neighbours_of((each.id for each in self.brokers), ((each.a, each.b) for each in self.links))

    def publications(self, seed: int | None = None) -> Iterator[ScheduledEvent]:
        """Every publication of the run in the order of time, drawn as they are asked for."""
        workers = [client.id for client in self.clients if client.works]
        streams = self.workload.streams(workers, self.seed if seed is None else seed, self.window)
        spelled_out = [
            scheduled(client.id, each, self.duration_us) for client in self.clients for each in client.schedule
        ]
        if not spelled_out:
            return merge(*streams)  # tuples compare by time, then client: one stream a client, so never by attributes
        return merge(*streams, *spelled_out, key=at_us_of)

    def timeline(self, seed: int | None = None) -> Iterator[Fault]:
        """The faults in the order of time, with those of the reconfiguration; each replacement names both links."""
        dice = Random(f"{self.seed if seed is None else seed}/reconfiguration")
        graph = Replacer((each.id for each in self.brokers), ((each.a, each.b) for each in self.links), dice)
        for fault in merge(self.faults, self._reconfigured(), key=attrgetter("at_us")):
            if fault.kind != "link-replace":
                yield fault
            elif replaced := graph.replace(fault.link, fault.to, fault.at_us, fault.after_us):
                yield replace(fault, link=replaced[0], to=replaced[1])

    def _reconfigured(self) -> Iterator[Fault]:
        if self.reconfiguration is not None:
            every_us, repair_us, (start_us, stop_us) = self.reconfiguration
            for at_us in range(start_us + every_us, stop_us, every_us):
                yield Fault(at_us, "link-replace", after_us=repair_us)
