"""What the planner expects of the demo's network, from its file, and what the audit has measured of each.

Losses on links: the planner's closed forms. The failover: a neighbour waits `suspect_s` before it asks for a replica,
and a process takes its time to run, which was measured before the run (`process_start`); what is published in that time
and has to pass the broker, or is for its clients, is held up. What its own clients publish is not counted: it waits
with them, and then comes by the original way. Nor is what links cost anyway, which the audit takes off as well.
"""

from dataclasses import dataclass
from math import prod

from holdfast.network.schema import Network
from holdfast.pipeline.audit.expectations import Expectation, share_and_error
from holdfast.pipeline.audit.job import AuditedRun
from holdfast.pipeline.audit.slices import Shown
from holdfast.planner.loss import forecasts
from holdfast.planner.plan import Case, case_of
from holdfast.protocol.recovery.settings import RecoverySettings

_US = 1_000_000


@dataclass(frozen=True)
class DemoPrediction:
    unaided: float  # share of what is owed that comes by the original way while all brokers are up
    in_the_end: float
    outage_us: int | None = None  # of a broker that dies; None when none does, or nothing replaces it
    held_up: float = 0.0  # deliveries


def predict(network: Network, start_us: int | None = None) -> DemoPrediction:
    """`start_us` is what a process takes to start on this machine; without it, the file's `start_s`."""
    case = case_of(network)
    recovery = network.reliability.guarantees.recovery
    told = recovery.told if isinstance(recovery, RecoverySettings) else RecoverySettings().told
    by_name = {each.mechanism: each.delivered for each in forecasts(case, told, 0, network.reliability.hops.nack.tries)}
    unaided = by_name.get("best effort", 1.0)
    in_the_end = by_name.get("end-to-end, digests", 1.0) if isinstance(recovery, RecoverySettings) else unaided
    killed = [fault.broker for fault in network.faults if fault.kind == "crash" and fault.broker is not None]
    if not killed or network.replication is None:
        return DemoPrediction(unaided, in_the_end)
    outage_us = network.replication.suspect_us + (network.replication.provision_us if start_us is None else start_us)
    return DemoPrediction(unaided, in_the_end, outage_us, _held_up_rate(case, killed[0]) * outage_us / _US)


def _held_up_rate(case: Case, broker: str) -> float:
    """Deliveries a second that this broker brings on their way, from others, and that no link loses."""
    number, rate = case.overlay.number, 0.0
    ways = {each.broker: case.overlay.ways_to(number[each.broker]) for each in case.demand.subscribers}
    for at, subscriber in enumerate(case.demand.subscribers):
        for origin, wanted in zip(case.demand.origins, case.demand.rates(at), strict=True):
            path = ways[subscriber.broker].path(number[origin.broker])
            if path is not None and number[broker] in path.brokers[1:]:
                rate += float(wanted) * prod(1 - case.overlay.links[link].loss for link in path.links)
    return rate


def beside(prediction: DemoPrediction, run: AuditedRun, shown: Shown) -> list[Expectation]:
    """The prediction and what was measured."""
    undisturbed = [
        {"original": row["delivered"] - row["recovered"], "owed": row["owed"]}
        for row in shown.slices
        if not any(
            row["second"] * _US <= each.over_us and each.failed_us < (row["second"] + shown.slice_s) * _US
            for each in shown.failovers
        )
    ]
    share, error = share_and_error(undisturbed, "original", "owed")
    known = [
        Expectation(
            "without recovery",
            prediction.unaided,
            share,
            "share",
            "the product of the links' delivery ratios on each path, over all that is owed; measured in the seconds "
            "without a failover, ± half of the 95 % interval over seconds",
            error,
        ),
        Expectation(
            "in the end",
            prediction.in_the_end,
            run.outcome.delivery_ratio,
            "share",
            "ten requests for each loss, each lost as events are; measured over the complete run",
        ),
    ]
    if prediction.outage_us is None or not shown.failovers:
        return known
    failover = shown.failovers[0]
    held_up = failover.during.replica + failover.recovered_for_it
    return [
        *known,
        Expectation(
            "replacing the broker",
            prediction.outage_us,
            failover.ready_us - failover.failed_us,
            "time",
            "suspect_s of the network file, and what a process took to start before the run; measured from the kill "
            "until the replica knows everything",
        ),
        Expectation(
            "delayed by it",
            prediction.held_up,
            held_up,
            "count",
            "deliveries a second that reach or pass the broker, less those that links lose anyway, times the predicted "
            "time; measured: what waited for the replica, and what was recovered beyond what links cost otherwise",
        ),
    ]
