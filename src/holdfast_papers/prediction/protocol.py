"""The prediction beside the simulator that runs the real protocol: the part that ns-2 has in paper 004.

The slides' low-end networks, with brokers that talk to each other: they notice failures by silence, find new ways, keep
events and send them again. Heartbeats are a minute apart, since outages last an hour. Failures come from named dice, so
that of every event we know what the rules of the model say for the very same outages (`outages.arrives`): that is the
sharp comparison. The long-run prediction is beside it, for which a run holds few outages.
"""

from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean
from typing import Any

from holdfast.network.load import parse_text
from holdfast.network.schema import Network
from holdfast.planner.overlay import Overlay, Path
from holdfast.planner.pairs import Predictor
from holdfast.planner.plan import case_of, predict
from holdfast.sim.simulator import Simulation
from holdfast_papers.claims import Claim
from holdfast_papers.estimates import difference, estimate
from holdfast_papers.models import Cell
from holdfast_papers.prediction.networks import LIFETIME_S, PredictionSetting, network_file
from holdfast_papers.prediction.outages import outages_of, share_in_time
from holdfast_papers.study import Runs, Scale
from holdfast_papers.verdicts import about

_SECONDS: dict[Scale, float] = {"quick": 100_000.0, "paper": 1_000_000.0}
_SEEDS: dict[Scale, int] = {"quick": 5, "paper": 10}
_EVERY_S = 1_000.0
_HEARTBEAT_S, _LEASE_S = 60.0, 210.0
_SLOW_US = 60_000_000
_WANTED = 0.01  # of the difference: minutes until a failure is noticed, where outages last an hour
# Where brokers route by destinations they go round a dead one in the end, so that basic has trees alone.
_CASES = (
    ("trees", "basic"),
    ("trees", "retransmission"),
    ("graphs", "retransmission"),
    ("graphs", "multipath"),
    ("graphs", "hybrid"),
)


def cells(scale: Scale) -> list[Cell]:
    return [
        {"topology": topology, "scheme": scheme, "seed": seed, "seconds": _SECONDS[scale]}
        for topology, scheme in _CASES
        for seed in range(1, _SEEDS[scale] + 1)
    ]


def measure(cell: Cell) -> dict[str, Any]:
    network = _network(cell)
    case = case_of(network)
    outcome = Simulation(network, cell["seed"]).run()
    predicted = [each.of(cell["scheme"], "counted") for each in predict(case, Predictor(case.overlay))]
    return {
        "simulated": outcome.delivered / outcome.owed,
        "expected": _expected(network, case.overlay, cell["scheme"]),
        "predicted": fmean(predicted),
        "owed": outcome.owed,
    }


def _network(cell: Cell) -> Network:
    file = network_file(PredictionSetting(cell["topology"], "low-end", cell["seed"], 0), _EVERY_S)
    file["duration_s"] = cell["seconds"]
    file["routing"] = "subscriptions" if cell["topology"] == "trees" else "destinations"
    file["protocol"] = {"heartbeat_s": _HEARTBEAT_S, "lease_s": _LEASE_S}
    file["reliability"] = {"hops": cell["scheme"], "beat_ms": 1_000 * _HEARTBEAT_S}
    network = parse_text(file)
    # What is looked at every second or two in a network of milliseconds has minutes here.
    hops = network.reliability.hops
    slow = replace(hops, handover=replace(hops.handover, sweep_us=_SLOW_US, wait_max_us=_SLOW_US))
    return replace(network, reliability=replace(network.reliability, hops=slow))


def _expected(network: Network, overlay: Overlay, scheme: str) -> float:
    """Of all events and subscribers, those that the rules let arrive in time with the outages of this run."""
    outages = outages_of(network)
    times_s = sorted({publication.at_us / 1e6 for publication in network.publications()})
    return fmean(share_in_time(overlay, path, outages, times_s, LIFETIME_S, scheme) for path in _paths(overlay))


def _paths(overlay: Overlay) -> Iterator[Path]:
    brokers = range(len(overlay.names))
    for source in brokers:
        for target in brokers:
            if source != target and (path := overlay.path(source, target)) is not None:
                yield path


def protocol_claims(rows: Runs) -> Iterator[Claim]:
    for topology, scheme in _CASES:
        mine = rows.of(topology=topology, scheme=scheme)
        settings = f"low-end {topology} of 10 simulated brokers, {mine.rows[0]['seconds']:,.0f} s, ends counted, "
        settings += f"seeds 1 to {len(mine.rows)}"
        simulated, expected, predicted = (mine.column(each) for each in ("simulated", "expected", "predicted"))
        note = f"simulated {fmean(simulated):.4f}, the rules {fmean(expected):.4f}, predicted {fmean(predicted):.4f}"
        yield Claim(
            f"004-protocol-{topology}-{scheme}",
            f"{topology}, {scheme}: what the protocol delivers, less what the model's rules say for the same outages",
            "as predicted",
            difference(simulated, expected),
            about(0, _WANTED),
            "paper",
            settings,
            note,
        )
        yield Claim(
            f"004-protocol-{topology}-{scheme}-predicted",
            f"{topology}, {scheme}: what the protocol delivers, less the long-run prediction",
            "as predicted",
            estimate([a - b for a, b in zip(simulated, predicted, strict=True)]),
            about(0, _WANTED),
            "paper",
            settings,
            "a run holds few outages, so that chance moves it far",
        )
