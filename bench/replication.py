"""Kill a broker of a live network that carries many subscriptions, and time its replacement.

Real processes and sockets on this machine: a broker with a publisher, the one that is killed, one with subscribers.
Times are read off the trace: from the replica's request to the first matching event that came by way of it
(PDRD, the mean over subscriptions), and from the replica's start to its word that it has everything.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from holdfast.network.writing import to_toml
from holdfast.reproduce.replication_model import ordering_degree, zipf
from holdfast.wire.runs import Run

_KILLED_S, _END_S = 25, 60  # tables of ten thousand conditions take a while to be everywhere on a busy machine


def network(protocol: str, subscriptions: int, seed: int) -> tuple[dict[str, object], list[int]]:
    wanted = zipf(Random(seed), 0.5, subscriptions, towards_high=False)
    conditions = [f"a{number} IS NULL AND v > {value}" for number, value in enumerate(wanted)]
    publish = [
        {"at_s": 5 + value / 20, "every_s": 1, "until_s": _END_S - 10, "attributes": {"v": value}}
        for value in range(1, 21)
    ]
    return {
        "name": "replication",
        "seed": seed,
        "duration_s": _END_S,
        "routing": "advertisements",
        "topology": {"kind": "line", "brokers": ["a", "f", "s"]},
        "transport": {"kind": "tcp"},
        "links": {"delay_ms": 0},
        "replication": {"protocol": protocol},
        "client": [
            {"id": "p", "broker": "a", "advertisements": ["v >= 1 AND v <= 20"], "publish": publish},
            {"id": "c", "broker": "s", "subscriptions": conditions},
        ],
        "fault": [{"at_s": _KILLED_S, "kind": "crash", "broker": "f"}],
    }, wanted


def measured(protocol: str, subscriptions: int, seed: int) -> dict[str, object]:
    text, wanted = network(protocol, subscriptions, seed)
    with TemporaryDirectory() as folder:
        file, out = Path(folder, "net.toml"), Path(folder, "run")
        file.write_text(to_toml(text), encoding="utf-8")
        command = [sys.executable, "-c", "from holdfast.cli import main; main()", "up", str(file), "--out", str(out)]
        subprocess.run([*command, "--json"], check=True, stdout=subprocess.PIPE)
        run = Run(out)
        incidents = run.table("incidents").to_pylist()
        deliveries = run.table("deliveries").to_pylist()
        published = {row["seq"]: row["attr:v"] for row in run.table("publications").to_pylist()}
    at = {(row["kind"], row["node"]): row["time_us"] for row in reversed(incidents)}
    asked_us = at[f"replication: {protocol}, failover", "s"]
    started_us = at["replica started", "f+1"]
    done_us = at["replication: replicated", "f+1"]
    came = sorted((row["time_us"], row["seq"]) for row in deliveries if row["via"] == "replica")
    delays = []
    for value in wanted:
        first = next((time_us for time_us, seq in came if published[seq] > value), None)
        delays += [] if first is None else [(first - asked_us) / 1e6]
    missing = sorted(set(published) - {row["seq"] for row in deliveries} - {s for s, v in published.items() if v == 1})
    return {
        "protocol": protocol,
        "subscriptions": subscriptions,
        "resumption_s": round(sum(delays) / len(delays), 3),
        "replication_s": round((done_us - started_us) / 1e6, 3),
        "detection_s": round(at["suspected", "a"] / 1e6 - _KILLED_S, 3),
        "from the kill to the replica's start_s": round(started_us / 1e6 - _KILLED_S, 3),
        "by way of the replica": len(came),
        "degree of order": round(ordering_degree([seq for _, seq in came]), 4),
        "lost": len(missing),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subscriptions", type=int, default=10_000)
    parser.add_argument("--save", type=Path, help="Write the rows as JSON.")
    arguments = parser.parse_args()
    rows = []
    for protocol in ("synchronous", "incremental", "ordered"):
        rows.append(measured(protocol, arguments.subscriptions, 1))
        print(json.dumps(rows[-1]), flush=True)
    if arguments.save:
        arguments.save.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
