"""The settings of replication, each with the reason for its default."""

from dataclasses import dataclass

from holdfast.model.messages import CopyProtocol


@dataclass(frozen=True)
class ReplicationSettings:
    """How brokers that fail or cannot keep up get replicas."""

    copying: CopyProtocol = "incremental"  # complete and quick; "synchronous" and "ordered" also keep the order
    replace: bool = True  # a broker that is silent gets a replica in its place
    relieve_queue: int | None = None  # messages waiting for a broker at two heartbeats get it a replica beside it
    reorder: bool = True  # where two brokers share the events of one, put these in order again behind them
    suspect_us: int = 500_000  # a broken connection is dialled again in less; longer silence is a failure
    takeover_us: int = 2_000_000  # the next neighbour asks for a replica when the one before it has not, for so long
    retry_us: int = 2_000_000  # without any progress, what may have been lost is said again
    tries: int = 5  # after so many a replica does without a neighbour that says nothing
    patience_us: int = 60_000_000  # a replica that is not there by then is not waited for; a process starts in seconds
    pending_max: int = 100_000  # events that wait for a replica, some 50 MB; the oldest are dropped and counted
    cache_max: int = 100_000  # events that a replica keeps for subscriptions to come; the same
    held_max: int = 100_000  # events that wait for their order; the oldest are let through and counted
    sources_max: int = 10_000  # sources of which it is known how far each way is, 2 MB; those heard last are kept
    chunk: int = 512  # conditions in one message, so that a large table holds up no event for long
    provision_us: int = 1_000_000  # until a replica runs, in the simulator; a process takes about a second
    directory: str | None = None  # outside, that knows who is next to whom; None: brokers tell, with their heartbeats
    pace_us: int = 0  # time that a neighbour takes for each message to the replica; in studies, as in the paper
    marks_us: int = 100_000  # between two signals that let an event pass which waits for its order
    retired_max: int = 1_000  # names of brokers that were replaced, which are told so when they come back
