"""Drawn scenarios, run and judged: a safety phase in which everything goes wrong, then a healed one.

Halfway through, everything is mended: links lose nothing, brokers are up, clients are attached. Whatever is published
after tables have had time to heal must arrive completely; and at no time may an event reach somebody who did not ask
for it, or twice, or be missing without a cause. Subscribers that recover have got or named every event that they are
owed by a publisher they follow, whatever happened. Limits and strict order must hold at every moment.
"""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.books.causes import Causes, within
from holdfast.books.definitions import NAMING, NAMING_FOR_ALL
from holdfast.books.outcome import Outcome
from holdfast.books.owed import EVENT, owed_of, wanted_of
from holdfast.books.promises import acknowledged_survives, check, what_is_owed
from holdfast.books.runs import Run
from holdfast.books.trace import TraceWriter
from holdfast.books.verdict import EXAMPLES_MAX, Verdict
from holdfast.network.provenance import about_run
from holdfast.network.schema import Network
from holdfast.sim.simulator import Simulation
from holdfast.sim.swarm_scenarios import END_US, SECOND, SETTLED_US, TROUBLE_US
from holdfast.sim.swarm_troubles import Scenario, drawn, kind_of

_WAITS = 5  # heartbeats after which a client's second condition has got as far as its first


@dataclass(frozen=True)
class SwarmReport:
    scenario: Scenario
    outcome: Outcome
    named: int  # of what is owed and never came: what the subscriber has named
    verdicts: dict[str, Verdict]

    @property
    def broken(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts.values() if not verdict.holds]


def run_seed(seed: int) -> SwarmReport:
    return run_scenario(drawn(seed))


def run_network(seed: int, network: Network) -> SwarmReport:
    return run_scenario(Scenario(seed, kind_of(network), network))


def run_scenario(scenario: Scenario) -> SwarmReport:
    with tempfile.TemporaryDirectory(prefix="holdfast-swarm-") as folder:
        outcome = simulate(scenario, Path(folder) / "run")
        return judged(scenario, outcome, Path(folder) / "run")


def simulate(scenario: Scenario, folder: Path) -> Outcome:
    network = scenario.network
    trace = TraceWriter(folder, about_run(network, "sim", scenario.seed))
    simulation = Simulation(network, scenario.seed, trace, ahead_us=scenario.ahead_us)
    simulation.at(TROUBLE_US, lambda *_: simulation.heal())
    return simulation.run()


def judged(scenario: Scenario, outcome: Outcome, folder: Path) -> SwarmReport:
    network, run = scenario.network, Run(folder)
    is_strict = (
        network.reliability.guarantees.order is not None and network.reliability.guarantees.order.mode == "strict"
    )
    verdicts = check(folder, strict_order=is_strict)
    wanted, causes = wanted_of(run), Causes(run, _WAITS)
    verdicts["healed"] = _healed(run, wanted, network)
    verdicts["P5"] = _acknowledged(run, wanted, causes, network)
    if is_strict:
        verdicts["P5"] = replace(verdicts["P5"], holds=True)  # an event that is late after all is dropped for order
    else:
        verdicts["P3"] = replace(verdicts["P3"], holds=True)  # nothing else promises that no event is ever late
    named = len(missing := _missing(run, wanted)) - len(_silent(missing, causes))
    if causes.recovers:
        lasting = wanted.filter(pc.is_null(wanted["until_us"]))
        verdicts["named"] = _got_or_named(run, _silent(_missing(run, lasting), causes), causes)
    return SwarmReport(scenario, outcome, named, verdicts)


def _healed(run: Run, wanted: pa.Table, network: Network) -> Verdict:
    """P4 for what was published once everything had healed: all of it has come."""
    # Longer than any path takes; small stores keep events with their publishers for as long as they are behind.
    in_flight_us = END_US if network.reliability.hops.durable else SECOND
    wanted = wanted.filter(pc.greater_equal(wanted["time_us"], SETTLED_US))
    # A subscription that ends while an event is on its way to it does not get that event, and should not.
    lasts = pc.greater(wanted["until_us"], pc.add(wanted["time_us"], in_flight_us))
    lasting = wanted.filter(pc.or_kleene(lasts, pc.is_null(wanted["until_us"])))
    return replace(what_is_owed(run.table("deliveries"), lasting), promise="healed")


def _acknowledged(run: Run, wanted: pa.Table, causes: Causes, network: Network) -> Verdict:
    """P5 for clients that stay where they are: one that moves says good-bye, and what was stored for it is erased.

    Links lose a third of what is said, so that conditions take their time; they are known once something has come.
    """
    leaving = ("client-detach", "client-attach")
    movers = sorted({fault.client for fault in network.faults if fault.kind in leaving and fault.client})
    deliveries = run.table("deliveries")
    wanted = wanted.filter(pc.invert(pc.is_in(wanted["subscriber"], pa.array(movers, pa.string()))))
    if network.routing == "advertisements":  # conditions follow a publisher that has moved, and take their time again
        wanted = wanted.filter(pc.invert(pc.is_in(wanted["source"], pa.array(movers, pa.string()))))
    keys = ["subscriber", "source"]
    wanted = wanted.join(deliveries.group_by(keys).aggregate([("seq", "min")]), keys, join_type="inner")
    wanted = wanted.filter(pc.greater(wanted["seq"], wanted["seq_min"]))
    return acknowledged_survives(deliveries, wanted, causes)


# Got or named ----------------------------------------------------------------------------------------------------


def _missing(run: Run, wanted: pa.Table) -> list[dict[str, Any]]:
    """What is owed and never came."""
    got = run.table("deliveries").select(EVENT)
    missing: list[dict[str, Any]] = owed_of(wanted).join(got, EVENT, join_type="left anti").to_pylist()
    return missing


def _silent(missing: list[dict[str, Any]], causes: Causes) -> list[dict[str, Any]]:
    """Of what never came, what no incident names."""
    given_up, expired = causes.named(NAMING), causes.events(NAMING_FOR_ALL)
    return [
        row
        for row in missing
        if (row["source"], row["seq"]) not in expired
        and not within(row["seq"], given_up.get((row["subscriber"], row["source"]), []))
        and not within(row["time_us"], causes.named_us.get(row["subscriber"], []))
    ]


def _got_or_named(run: Run, silent: list[dict[str, Any]], causes: Causes) -> Verdict:
    """With recovery: events that nobody named, of publishers that the subscriber followed, from the first that came on.

    Whatever the faults were: P4 excuses what is published around a disturbance, and this does not.
    """
    arrived = run.table("deliveries").to_pylist()
    # It may have waited for the sake of order. Of those that came in one instant, any may have been the first.
    arrived.sort(key=lambda row: (row["time_us"] - row["held_us"], -row["seq"]))
    first = {(row["subscriber"], row["source"]): row["seq"] for row in reversed(arrived)}
    left = [
        row
        for row in silent
        if row["subscriber"] != row["source"]
        and row["subscriber"] not in causes.overstretched
        and row["seq"] > first.get((row["subscriber"], row["source"]), row["seq"])
    ]
    examples = tuple({name: row[name] for name in (*EVENT, "time_us")} for row in left[:EXAMPLES_MAX])
    return Verdict("named", not left, len(arrived) + len(silent), len(left), examples)
