"""The simulator's speed: link transmissions a second on the tree of paper 001, beside the same model in SimPy.

Both run 100 brokers in a tree, 50 publications a second each, three of 70 patterns an event, a tenth lost on every
link, no recovery. Ours runs the real brokers and clients with tables, heartbeats and books; SimPy's only forwards and
counts (bench/simpy_model.py). CPU time, best of interleaved rounds.
"""

import argparse
import json
import resource
import sys
import time

from bench.simpy_model import Model
from holdfast.network.load import parse_text
from holdfast.network.presets import preset_text
from holdfast.network.schema import Network
from holdfast.sim.simulator import Simulation

TARGET = 10.0


def tree_network(seconds: float) -> Network:
    return parse_text(preset_text("epidemic-100"), "epidemic-100", {"duration_s": seconds})


def ours(network: Network, seed: int) -> tuple[float, float]:
    """Transmissions a second between brokers, and the share that was delivered."""
    began = time.process_time()
    outcome = Simulation(network, seed).run()
    took_s = time.process_time() - began
    from_clients = outcome.published  # a client's own link is not one of the tree's
    return (outcome.messages["Publish"]["sent"] - from_clients) / took_s, outcome.delivery_ratio


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
    """How much more memory a run of three times the length takes."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    Simulation(network, 1).run()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    words.add_argument("--seconds", type=float, default=6.0, help="simulated seconds a round")
    words.add_argument("--rounds", type=int, default=3)
    given = words.parse_args()
    network = tree_network(given.seconds)
    best_ours = best_simpy = share = 0.0
    for seed in range(1, given.rounds + 1):
        rate, share = ours(network, seed)
        best_ours, best_simpy = max(best_ours, rate), max(best_simpy, simpy(network, given.seconds, seed))
        print(f"round {seed}: ours {rate:,.0f}/s, SimPy {best_simpy:,.0f}/s", file=sys.stderr)
    growth = memory_growth_mib(tree_network(3 * given.seconds))
    ratio = best_ours / best_simpy
    result = {
        "transmissions_per_s": best_ours,
        "simpy_per_s": best_simpy,
        "ratio": ratio,
        "target": TARGET,
        "holds": ratio >= TARGET,
        "delivery_ratio": share,
        "memory_growth_mib": growth,
    }
    if given.json:
        print(json.dumps(result))
    else:
        print(f"holdfast   {best_ours:>12,.0f} transmissions/s of CPU time, best of {given.rounds}")
        print(f"SimPy      {best_simpy:>12,.0f}")
        print(f"ratio      {ratio:>12.1f}x   target at least {TARGET:.0f}x   {'yes' if ratio >= TARGET else 'NO'}")
        print(f"memory     {growth:>12.1f} MiB more for three times the simulated time")
    return 0 if ratio >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
