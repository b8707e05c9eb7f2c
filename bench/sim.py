"""The simulator's speed: link transmissions a second on the tree of paper 001, beside the same model in SimPy.

Both run 100 brokers in a tree, 50 publications a second each, three of 70 patterns an event, a tenth lost on every
link, no recovery. Ours runs the real brokers and clients with tables, heartbeats and books; SimPy's only forwards and
counts (bench/simpy_model.py). CPU time; the ratio is the median over interleaved rounds. Then each mechanism by
itself (bench/sim_workloads.py), beside commit 63062b5: measured in alternation with `--against`, or as it was saved.
"""

import resource
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench import sim_workloads
from bench.command import options, told
from bench.results import load, machine, saved_at
from bench.simpy_model import Model
from holdfast.network.load import parse_text
from holdfast.network.presets import preset_text
from holdfast.network.schema import Network
from holdfast.sim.simulator import Simulation

TARGET = 10.0


def tree_network(seconds: float) -> Network:
    return parse_text(preset_text("epidemic-100"), "epidemic-100", {"duration_s": seconds})


def ours(network: Network, seed: int, express: bool = True) -> float:
    """Transmissions between brokers for each second of CPU time."""
    began = time.process_time()
    outcome = Simulation(network, seed, express=express).run()
    took_s = time.process_time() - began
    from_clients = outcome.published  # a client's own link is not one of the tree's
    return (outcome.messages["Publish"]["sent"] - from_clients) / took_s


def simpy(network: Network, seconds: float, seed: int) -> float:
    wanted = {
        client.broker: [each.condition.partition(" ")[0] for each in client.subscriptions] for client in network.clients
    }
    link = network.links[0]
    patterns = [f"p{n}" for n in range(1, 71)]
    began = time.process_time()
    model = Model(network.neighbours(), wanted, patterns, 3, 50.0, link.loss_ratio, link.delay_us / 1e6, seed)
    model.run(seconds)
    return model.transmissions / (time.process_time() - began)


def memory_growth_mib(network: Network) -> float:
    """How much more memory a run of three times the length takes, in a process that has done the shorter one."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    Simulation(network, 1).run()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def measure(seconds: float, rounds: int, other: Path | None) -> dict[str, Any]:
    network = tree_network(seconds)
    ours(tree_network(1.0), 1)  # compiled code is loaded from its cache, or made
    rates: dict[str, list[float]] = {"express": [], "one by one": [], "simpy": []}
    for seed in range(1, rounds + 1):
        for way, found in rates.items():
            found.append(simpy(network, seconds, seed) if way == "simpy" else ours(network, seed, way == "express"))
        print(
            f"round {seed}: " + ", ".join(f"{way} {found[-1]:,.0f}/s" for way, found in rates.items()), file=sys.stderr
        )
    ratios = [a / b for a, b in zip(rates["express"], rates["simpy"], strict=True)]
    return {
        "benchmark": "sim",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "seconds": seconds,
        "rates": rates,
        "ratio": median(ratios),
        "ratios": ratios,
        "target": TARGET,
        "holds": median(ratios) >= TARGET,
        "memory_growth_mib": memory_growth_mib(tree_network(3 * seconds)),
        "workloads_date": datetime.now(UTC).date().isoformat(),
        "workloads": sim_workloads.measure(rounds, other, (load(saved_at("sim")) or {}).get("workloads", {})),
    }


def some(names: list[str], rounds: int, other: Path | None) -> dict[str, Any]:
    """The saved result, with some of its mechanisms measured anew."""
    saved = load(saved_at("sim"))
    if saved is None:
        raise SystemExit("nothing is saved yet: measure all")
    rows = sim_workloads.measure(rounds, other, saved["workloads"], names)
    return {"benchmark": "sim", **saved, "workloads": {**saved["workloads"], **rows}}


_NAMES = {
    "express": "Holdfast",
    "one by one": "Holdfast, every message through a machine",
    "simpy": "SimPy",
}


def section(data: dict[str, Any]) -> str:
    rows = [
        f"| {_NAMES[way]} | {median(found):,.0f} | {min(found):,.0f} to {max(found):,.0f} |"
        for way, found in data["rates"].items()
    ]
    table = "\n".join(["| | transmissions/s | rounds |", "|---|--:|--:|", *rows])
    made = data["machine"]
    return f"""## The simulator

`./run bench sim --save`, {data["date"]}, {made["processor"]}, Python {made["python"]}: the tree of paper 001
(100 brokers, 50 publications a second each, a tenth lost on every link, no recovery), {data["seconds"]:g} simulated
seconds, seeds 1 to {len(data["ratios"])}, transmissions between brokers for each second of CPU time.

{table}

Holdfast is {data["ratio"]:.1f} times as fast as SimPy (median of the rounds; target at least {data["target"]:g}:
{"holds" if data["holds"] else "does not hold"}). Its run includes the exchange of subscriptions, heartbeats and the
books; the model in SimPy only forwards and counts. The second row is what networks get whose brokers remember
something about events: queues, capacities, bursts, and most ways of recovery. Three times the simulated time takes
{data["memory_growth_mib"]:.0f} MiB more memory.

{_workloads(data)}"""


def _workloads(data: dict[str, Any]) -> str:
    rows = data["workloads"]
    seconds = sorted(row["seconds"] for row in rows.values())
    dates = sorted({row.get("date", data["workloads_date"]) for row in rows.values()})
    return f"""Each mechanism by itself, {" and ".join(dates)}: {seconds[0]:g} to {seconds[-1]:g} simulated seconds,
with the exchange of subscriptions, medians over the seeds. `nack` and gossip take express lanes of compiled code, which
they have as long as nothing fails; all others go through machines. The time includes loading that code, and memory is
the most that the process had. The runs of commit 63062b5 alternated with these; "wanted" is the ratio aimed at.

{sim_workloads.table(rows)}
"""


def main() -> int:
    words = options("sim", __doc__)
    words.add_argument("--seconds", type=float, default=25.0, help="simulated seconds a round, as in the paper")
    words.add_argument("--rounds", type=int, default=3)
    words.add_argument("--against", type=Path, help="a tree of commit 63062b5, to be measured in alternation")
    words.add_argument(
        "--only", nargs="+", choices=[*sim_workloads.WORKLOADS], help="the others stay as they were saved"
    )
    given = words.parse_args()
    data = (
        some(given.only, given.rounds, given.against)
        if given.only
        else measure(given.seconds, given.rounds, given.against)
    )
    told(given, data, section)
    return 0 if data["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
