"""Predict what a subscriber will get when brokers fail, with and without stores, then simulate it and compare.

    ./run python examples/plan_then_measure.py

Three brokers in a line, each up nine tenths of the time. The prediction is exact and takes no time; a measured value is
the mean over seeds 1 to SEEDS of simulations of the real protocol, with its 95 % interval: half a minute each.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HOLDFAST = Path(sys.executable).with_name("holdfast")
SEEDS = 5
STUDENT = 2.776  # 97.5 % of Student's t with SEEDS - 1 degrees of freedom

NETWORK = """
name = "line"
duration_s = 10_000

[topology]
kind = "line"
brokers = 3

[brokers]
availability = 0.9
cycle_s = 200                # up for 180 s on average, then down for 20

[links]
delay_ms = 5

[[client]]
id = "feed"
broker = "b1"
publish = [{ at_s = 20, every_s = 1, lifetime_s = 20, attributes = { kind = "trade" } }]

[[client]]
id = "desk"
broker = "b3"
subscriptions = ["kind = 'trade'"]
"""


def holdfast(*words: str) -> dict[str, Any]:
    done = subprocess.run([str(HOLDFAST), *words, "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main(folder: Path) -> None:
    net = folder / "line.toml"
    net.write_text(NETWORK)
    (predicted,) = holdfast("plan", str(net))["subscribers"]
    print(f"{'':16}{'predicted':>10}  measured, with 95 % interval")
    for scheme in ("basic", "retransmission"):
        runs = [
            holdfast("sim", str(net), "--seed", str(seed), "--set", f"reliability.hops={scheme}")
            for seed in range(1, SEEDS + 1)
        ]
        shares = [run["delivered"] / run["owed"] for run in runs]
        half = STUDENT * statistics.stdev(shares) / SEEDS**0.5
        print(f"{scheme:16}{predicted[scheme]:>10.4f}  {statistics.mean(shares):.4f} ± {half:.4f}")


with tempfile.TemporaryDirectory() as made:
    main(Path(made))
