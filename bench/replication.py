"""Kill a broker of a live network that carries many subscriptions, time its replacement, and set the model beside it.

Real processes and sockets on this machine: a broker with a publisher, the one that is killed, one with subscribers.
Times are read off the trace: from the replica's request to the first matching event that came by way of it
(PDRD, the mean over subscriptions), and from that request to the replica's word that it has everything. The model's
times are those of the paper's machines (`holdfast reproduce replication`), so shapes may be compared, not seconds.
"""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from bench.command import options, told
from bench.results import load, machine, saved_at
from holdfast.books.runs import Run
from holdfast.model.replication_messages import CopyProtocol
from holdfast.network.writing import to_toml
from holdfast_papers.replication.model import Model, ReplicationSetting, ordering_degree, zipf

_PROTOCOLS: tuple[CopyProtocol, ...] = ("synchronous", "incremental", "ordered")
_KILLED_S, _END_S = 30, 58  # tables of ten thousand conditions take a while to be everywhere on a busy machine
_PENDING = 100  # published while the replica starts: within these seconds after the kill
_PENDING_S = 2.0


def network(protocol: str, subscriptions: int, seed: int) -> tuple[dict[str, object], list[int]]:
    dice = Random(seed)
    wanted = zipf(dice, 0.5, subscriptions, towards_high=False)
    conditions = [f"a{number} IS NULL AND v > {value}" for number, value in enumerate(wanted)]
    pending = [
        {"at_s": _KILLED_S + _PENDING_S * number / _PENDING, "attributes": {"v": value}}
        for number, value in enumerate(zipf(dice, 0.5, _PENDING, towards_high=False), 1)
    ]
    steady = [{"at_s": 5, "every_s": 1, "until_s": _END_S - 10, "attributes": {"v": 20}}]
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
            {"id": "p", "broker": "a", "advertisements": ["v >= 1 AND v <= 20"], "publish": steady + pending},
            {"id": "c", "broker": "s", "subscriptions": conditions},
        ],
        "fault": [{"at_s": _KILLED_S, "kind": "crash", "broker": "f"}],
    }, wanted


def measured(protocol: CopyProtocol, subscriptions: int, seed: int) -> dict[str, Any]:
    text, wanted = network(protocol, subscriptions, seed)
    with TemporaryDirectory() as folder:
        file, out = Path(folder, "net.toml"), Path(folder, "run")
        file.write_text(to_toml(text), encoding="utf-8")
        command = [sys.executable, "-c", "from holdfast.cli import main; main()", "up", str(file), "--out", str(out)]
        subprocess.run([*command, "--json"], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        run = Run(out)
        tables = {name: run.table(name).to_pylist() for name in ("incidents", "deliveries", "publications")}
    return {"protocol": protocol, "subscriptions": subscriptions, **found_in(tables, protocol, wanted)}


def found_in(tables: dict[str, list[dict[str, Any]]], protocol: CopyProtocol, wanted: list[int]) -> dict[str, Any]:
    """What a trace says of the replacement of f."""
    at: dict[tuple[str, str], int] = {}
    for row in sorted(tables["incidents"], key=lambda row: row["time_us"], reverse=True):
        if row["kind"] != "failover_requested" or row["copying"] == protocol:
            at[row["kind"], row["node"]] = row["time_us"]  # the first of its kind
    replica = next((node for kind, node in at if kind == "replica_ready"), "f+1")
    needed = [("crash", "f"), ("failover_requested", "s"), ("replica_ready", replica)]
    if missing := [" at ".join(each) for each in needed if each not in at]:
        found = sorted({f"{row['kind']} ({row['peer']})" for row in tables["incidents"]})
        raise SystemExit(f"the trace has no {', '.join(missing)}; it has {', '.join(found)}")
    killed_us, asked_us, done_us = (at[each] for each in needed)
    values = {row["seq"]: row["attr:v"] for row in tables["publications"]}
    came = sorted((row["time_us"], row["seq"]) for row in tables["deliveries"] if row["via"] == "replica")
    firsts = [next((time_us for time_us, seq in came if values[seq] > value), None) for value in wanted]
    delays_s = [(first - asked_us) / 1e6 for first in firsts if first is not None]
    arrived = {row["seq"] for row in tables["deliveries"]}
    lost = [row for row in tables["publications"] if row["attr:v"] > min(wanted) and row["seq"] not in arrived]
    detected_us = max(at[each] for each in at if each[0] == "suspected" and killed_us <= at[each] <= asked_us)
    return {
        "resumption_s": sum(delays_s) / len(delays_s),
        "replication_s": (done_us - asked_us) / 1e6,
        "detection_s": (detected_us - killed_us) / 1e6,
        "start_s": (asked_us - detected_us) / 1e6,
        "by_replica": len(came),
        "ordering": ordering_degree([seq for _, seq in came]),
        "lost": len(lost),
        "lost_outside": sum(not killed_us <= row["time_us"] <= detected_us for row in lost),
    }


def modelled(protocol: CopyProtocol, subscriptions: int, seed: int) -> dict[str, float]:
    found = Model(ReplicationSetting(protocol, subscriptions=subscriptions, pending=_PENDING, seed=seed)).experiment()
    return {"resumption_s": found.resumption_s, "replication_s": found.replication_s, "ordering": found.ordering}


def table(data: dict[str, Any]) -> str:
    lines = [
        "| | live: PDRD | replication | order | kill to detection | to the replica's request | lost, outside | "
        "model: PDRD | replication | order |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in data["rows"]:
        live, model = row["live"], row["model"]
        lines.append(
            f"| {row['protocol']} | {live['resumption_s']:.2f} s | {live['replication_s']:.2f} s | "
            f"{live['ordering']:.3f} | {live['detection_s']:.3f} s | {live['start_s']:.1f} s | "
            f"{live['lost']}, {live['lost_outside']} | "
            f"{model['resumption_s']:.2f} s | {model['replication_s']:.2f} s | {model['ordering']:.3f} |"
        )
    return "\n".join(lines)


def section(data: dict[str, Any]) -> str:
    return f"""## A live replacement

`./run bench replication --save` ({data["date"]}). Three brokers in a line, each a process, {data["subscriptions"]:,}
subscriptions; the one in the middle is killed, and {data["pending"]} events are published while its replica starts.
"Lost, outside": events that never came, and those of them that were not published between the kill and its detection.
The model is the simulator with the service times of the paper's machines. One run each, and other work on the machine
moves the live ones.

{table(data)}
"""


def main() -> None:
    parser = options("replication", __doc__)
    parser.add_argument("--subscriptions", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=_PROTOCOLS, help="one protocol; with --save the other rows stay")
    given = parser.parse_args()
    rows = []
    for protocol in _PROTOCOLS if given.only is None else (given.only,):
        live = measured(protocol, given.subscriptions, given.seed)
        rows.append({"protocol": protocol, "live": live, "model": modelled(protocol, given.subscriptions, given.seed)})
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    data = {
        "benchmark": "replication",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(("msgspec", "uvloop")),
        "subscriptions": given.subscriptions,
        "pending": _PENDING,
        "seed": given.seed,
        "rows": rows,
    }
    if given.save and given.only is not None:
        others = [row for row in _saved_rows() if row["protocol"] != given.only]
        data["rows"] = sorted([*others, *rows], key=lambda row: _PROTOCOLS.index(row["protocol"]))
    told(given, data, section, table)


def _saved_rows() -> list[dict[str, Any]]:
    saved = load(saved_at("replication"))
    return [] if saved is None else saved["rows"]


if __name__ == "__main__":
    main()
