"""What the network file has happen to clients, and what the audit found of it: an absence, a burst.

The moments are those of the file; what was owed and what became of it comes from the facts of the audit.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.network.schema import Network
from holdfast.pipeline.audit.job import Audit

_BURST_US = 10_000  # less between two publications than this is a burst: the demo's publishers wait eight times as long


@dataclass(frozen=True)
class Episode:
    kind: str  # absence or burst
    client: str
    from_us: int
    until_us: int
    published: int = 0  # by a burst's client, on schedule
    owed: int = 0
    recovered: int = 0
    missing: int = 0
    delay_p50_us: int | None = None
    last_us: int | None = None  # when the last of them arrived


def planned(network: Network) -> Iterator[Episode]:
    """Those of the file that end before the run does, in the order of time."""
    found = [each for each in (*_absences(network), *_bursts(network)) if each.until_us <= network.duration_us]
    yield from sorted(found, key=lambda each: each.from_us)


def _absences(network: Network) -> Iterator[Episode]:
    away: dict[str, int] = {}
    for fault in sorted(network.faults, key=lambda each: each.at_us):
        if fault.kind == "client-detach" and fault.client is not None:
            away[fault.client] = fault.at_us
        elif fault.kind == "client-attach" and fault.client in away:
            yield Episode("absence", fault.client, away.pop(fault.client), fault.at_us)


def _bursts(network: Network) -> Iterator[Episode]:
    for client in network.clients:
        for each in client.schedule:
            if each.every_us is not None and each.every_us < _BURST_US:
                until_us = network.duration_us if each.until_us is None else each.until_us
                yield Episode("burst", client.id, each.at_us, until_us, (until_us - each.at_us) // each.every_us)


def episodes(network: Network, audit: Audit) -> list[Episode]:
    """What became of what was owed to an absent client meanwhile, and of what a burst's client published in it."""
    return [_measured(each, audit) for each in planned(network)]


def _measured(each: Episode, audit: Audit) -> Episode:
    who = "subscriber" if each.kind == "absence" else "source"
    client = each.client.replace("'", "''")
    # Key: none; one row for an episode.
    found = audit.facts.engine.sql(f"""
        SELECT count(*), count_if(via <> 'original'), count_if(arrived_us IS NULL),
            CAST(percentile_disc(0.5) WITHIN GROUP (ORDER BY arrived_us - published_us) AS BIGINT), max(arrived_us)
        FROM {audit.facts}
        WHERE owed AND (first OR arrived_us IS NULL) AND {who} = '{client}'
            AND published_us BETWEEN {each.from_us} AND {each.until_us}""")
    [(owed, recovered, missing, delay_p50_us, last_us)] = found.rows()
    return replace(each, owed=owed, recovered=recovered, missing=missing, delay_p50_us=delay_p50_us, last_us=last_us)
