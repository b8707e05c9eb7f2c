"""The settings of replication."""

from dataclasses import dataclass

from holdfast.model.replication_messages import CopyProtocol, ReplicaUse
from holdfast.model.settings import Settings, setting

_WAITING_MAX = 10_000_000  # messages that wait in one place: gigabytes


@dataclass(frozen=True)
class ReplicationSettings(Settings):
    """How brokers that fail or cannot keep up get replicas."""

    copying: CopyProtocol = setting(
        "incremental",
        "how events reach the replica while it copies its tables; incremental: soon but out of order; synchronous: "
        "in order when it has everything; ordered: soon and in order; basic: some are lost",
        "nothing is lost, and soonest",
        key="protocol",
    )
    replace: bool = setting(
        True,
        "a broker that is silent gets a replica in its place",
        "this is what most want replicas for",
        key="replace",
    )
    relieve_queue: int | None = setting(
        None,
        "messages queued for a broker at two heartbeats in a row, at which it gets a replica beside it",
        "a second replica costs a machine",
        unit="messages",
        at_most=_WAITING_MAX,
        key="relieve_queue",
        otherwise="never",
    )
    relieve_delay_us: int | None = setting(
        None,
        "how long events may wait for a broker at two heartbeats in a row, before it gets a replica beside it; a "
        "message there and back at every heartbeat measures it",
        "a delay is what a service level agreement names; a queue means more or less depending on the broker",
        key="relieve_delay_ms",
        otherwise="never",
    )
    relief_max: int = setting(
        2,
        "replicas that one broker may have beside it",
        "three brokers bear what one could not; beyond that the network wants another layout",
        unit="replicas",
        at_most=16,
        key="relief_replicas",
    )
    release_us: int = setting(
        30_000_000,
        "how long the load of a broker and its replicas has to stay below a quarter of the limit, until one of them is "
        "released; twice as long after each release that proves to be a mistake",
        "a start costs seconds, and load comes in waves",
        key="release_s",
    )
    reorder: bool = setting(
        True,
        "where a broker and its replicas share events, put them in order again behind them",
        "each alone keeps the order of a source, together they do not",
        key="reorder",
    )
    suspect_us: int = setting(
        500_000,
        "how long a connection may be gone before a replica is requested; silence is judged by `phi`",
        "a broken connection is dialled again in less",
        key="suspect_s",
    )
    takeover_us: int = setting(
        2_000_000,
        "how long the next neighbour waits for the one before it to request a replica",
        "a heartbeat or two tell it otherwise",
    )
    retry_us: int = setting(2_000_000, "without progress, until control messages are retransmitted", "two heartbeats")
    tries: int = setting(
        5, "retransmissions before a replica does without a silent neighbour", "ten seconds", unit="retransmissions"
    )
    patience_us: int = setting(
        60_000_000,
        "how long events wait for a replica; after that they are dropped and the broker is forgotten",
        "a process starts in seconds",
        key="patience_s",
    )
    pending_max: int = setting(
        100_000,
        "events that may wait for a replica; beyond that the oldest are dropped and counted",
        "some 50 MB",
        unit="messages",
        at_most=_WAITING_MAX,
        key="pending",
    )
    cache_max: int = setting(
        100_000, "events that a replica keeps for subscriptions to come", "some 50 MB", unit="events"
    )
    held_max: int = setting(
        100_000, "events that wait for their order; the oldest are let through and counted", "some 50 MB", unit="events"
    )
    sources_max: int = setting(
        10_000, "sources whose progress on each path is known; those heard last are kept", "2 MB", unit="sources"
    )
    chunk: int = setting(512, "conditions in one message", "a large table delays no event for long", unit="conditions")
    provision_us: int = setting(
        1_000_000,
        "how long a replica takes to start, in the simulator",
        "a process on this machine takes about so long",
        key="start_s",
    )
    directory: str | None = setting(
        None,
        "live: a service, zookeeper://HOST:PORT/PATH, from which brokers learn the neighbours of their neighbours",
        "one service less to run",
        expects='an address in quotes, such as "zookeeper://127.0.0.1:2181/holdfast"',
        key="directory",
        otherwise="the brokers themselves, with their heartbeats",
    )
    pace_us: int = setting(
        0, "time that a neighbour takes for each message to the replica, in studies", "as in the paper", at_least=0
    )
    marks_us: int = setting(
        100_000, "between two signals that release an event which waits for its order", "a tenth of a heartbeat"
    )
    retired_max: int = setting(
        1_000, "names of replaced brokers, which learn of it when they come back", "100 kB", unit="names"
    )


@dataclass(frozen=True)
class Role:
    """What a replica is started with."""

    faulty: str
    neighbours: tuple[str, ...]
    copying: CopyProtocol
    use: ReplicaUse
