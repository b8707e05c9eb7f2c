"""What nodes have sent and what they hold, second by second, for the trace and the totals."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from holdfast.books.definitions import LAST_HOP
from holdfast.books.outcome import DelayHistogram, Outcome
from holdfast.books.rows import message_row, sample_rows
from holdfast.protocol.node import Asks
from holdfast.sim.host import Host
from holdfast.sim.serving import Serving

if TYPE_CHECKING:
    from holdfast.books.trace import TraceWriter


def take_tallies(
    hosts: Iterable[Host], outcome: Outcome, trace: "TraceWriter | None", from_us: int, until_us: int
) -> None:
    """Add an interval's counts to the totals, write them down, and begin anew."""
    for host in hosts:
        for kind, tally in host.tallies.items():
            total = outcome.messages.setdefault(kind, {"sent": 0, "bytes": 0, "lost": 0, "received": 0})
            for name, value in zip(total, (tally.sent, tally.sent_bytes, tally.lost, tally.received), strict=True):
                total[name] += value
            if trace is not None:
                trace.add(*message_row(host.name, kind, from_us, until_us, tally))
        host.tallies.clear()


def write_samples(hosts: Iterable[Host], serving: Serving, trace: "TraceWriter", now_us: int) -> None:
    for host in hosts:
        if host.up:
            gauges = host.machine.gauges()
            if host.has_service_time:
                gauges["queue"] = host.queue_length, serving.places(host)
            for row in sample_rows(host.name, now_us, gauges):
                trace.add(*row)


def add_recovery(hosts: Iterable[Host], outcome: Outcome) -> None:
    """What recovery did, counted by nodes, and how much of it the most burdened leaf of the network carried."""
    phases: dict[str, DelayHistogram] = {}
    for host in hosts:
        for phase, times_us in (host.machine.phases_us if isinstance(host.machine, Asks) else {}).items():
            for time_us in times_us:
                phases.setdefault(phase, DelayHistogram()).add(time_us)
    outcome.recovery = recovery_counts(hosts)
    outcome.phases_us = {phase: each.summary((50, 80, 99)) for phase, each in phases.items()}  # paper 000 tells p80
    outcome.leaf_recovery_ratio = max(map(_leaf_ratio, hosts), default=0.0)


def add_slice(hosts: Iterable[Host], outcome: Outcome, number: int) -> None:
    """What nodes have done to recover up to the end of a slice of the run."""
    for what, count in recovery_counts(hosts).items():
        if count:
            outcome.slices.setdefault(what, {})[f"{number:06d}"] = count


def add_transmissions(outcome: Outcome) -> None:
    between = [counts for kind, counts in outcome.messages.items() if kind not in LAST_HOP]
    outcome.transmissions = sum(counts["sent"] for counts in between)
    outcome.bytes = sum(counts["bytes"] for counts in between)


def recovery_counts(hosts: Iterable[Host]) -> dict[str, int]:
    """What nodes did to recover: the sum, but of the longest the longest, and of the shortest the shortest."""
    found: dict[str, int] = {}
    for host in hosts:
        for name, count in host.machine.counts.items():
            if name not in found:
                found[name] = count
            elif name.startswith(("longest", "shortest")):
                found[name] = max(found[name], count) if name.startswith("longest") else min(found[name], count)
            else:
                found[name] += count
    return found


def _leaf_ratio(host: Host) -> float:
    """Bytes about recovery for each byte of events, over the only link of a broker to another, in both directions."""
    channels = [channel for channel in host.channels.values() if channel.receiver.kind == "broker"]
    if host.kind != "broker" or len(channels) != 1 or host.name not in channels[0].receiver.channels:
        return 0.0
    both = channels[0], channels[0].receiver.channels[host.name]
    events = sum(each.event_bytes for each in both)
    return sum(each.recovery_bytes for each in both) / events if events else 0.0
