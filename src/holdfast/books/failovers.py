"""The moments of every replication in a trace: a broker fails, its neighbours notice, a replica asks them and is ready.

They are incidents like others; here they are put together. Whoever judges a replication needs them: what was published
between the failure and its detection went to a broker that was no more, and nobody can bring it back.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.model.messages import CopyProtocol, ReplicaUse

Moment = tuple[str, int, str, str]  # node, time, kind, about: an incident
CRASHED, SUSPECTED, READY, MOVED = "crash", "suspected", "replica_ready", "broker_lost"
_ASKED = "replication: "  # with the protocol and its use; about "FAULTY by REPLICA"


@dataclass(frozen=True)
class Failover:
    faulty: str
    replica: str
    copying: CopyProtocol
    use: ReplicaUse
    failed_us: int | None  # None: it did not fail, it was slow
    noticed_us: int  # by the last of its neighbours
    asked_us: int  # when the replica's first request came
    ready_us: int | None

    @property
    def promises_complete(self) -> bool:
        return self.copying != "basic"

    @property
    def promises_order(self) -> bool:
        return self.use == "reordering" or (self.use == "failover" and self.copying != "incremental")

    def cost(self, published_us: int, transit_us: int) -> bool:
        """Whether the failure may have taken an event that was published then and is so long on its way."""
        return self.failed_us is not None and self.failed_us - transit_us <= published_us <= self.noticed_us


def is_moment(kind: str) -> bool:
    return kind in (CRASHED, SUSPECTED, READY, MOVED) or kind.startswith(_ASKED)


def failovers(moments: Iterable[Moment]) -> list[Failover]:
    rows = sorted(moments, key=lambda row: row[1])
    asked: dict[tuple[str, str], list[Moment]] = {}
    for row in rows:
        if row[2].startswith(_ASKED) and ", " in row[2]:
            faulty, _, replica = row[3].rpartition(" by ")
            asked.setdefault((faulty, replica), []).append(row)
    return [_failover(faulty, replica, requests, rows) for (faulty, replica), requests in asked.items()]


def _failover(faulty: str, replica: str, requests: list[Moment], rows: list[Moment]) -> Failover:
    copying, _, use = requests[0][2].removeprefix(_ASKED).partition(", ")
    noticed_us = []
    for neighbour, asked_us, _, _ in requests:
        doubts = [at for node, at, kind, about in rows if (node, kind, about) == (neighbour, SUSPECTED, faulty)]
        noticed_us.append(max((at for at in doubts if at <= asked_us), default=asked_us))
    crashes = [at for node, at, kind, _ in rows if (node, kind) == (faulty, CRASHED) and at <= max(noticed_us)]
    ready = [at for node, at, kind, _ in rows if (node, kind) == (replica, READY)]
    failed_us = max(crashes, default=min(noticed_us)) if use == "failover" else None
    return Failover(
        faulty,
        replica,
        copying,  # type: ignore[arg-type]
        use,  # type: ignore[arg-type]
        failed_us,
        max(noticed_us),
        requests[0][1],
        min(ready, default=None),
    )


def moved(moments: Iterable[Moment]) -> set[str]:
    """Clients whose own broker was lost; they miss what is published until they are connected again."""
    return {node for node, _, kind, _ in moments if kind == MOVED}
