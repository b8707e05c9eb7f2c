"""The planner beside a live network: brokers that really stop and start again, seconds instead of hours.

A line of three brokers fails by the network file's own dice, so for `basic` we know of every event whether its path
was up; in a run of a minute or two that is a far better yardstick than the long-run share that the planner gives,
which is shown as well. Live brokers need a moment to find each other again, which the model does not have."""

import json
import subprocess
import sys
from bisect import bisect
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from holdfast.model.errors import HoldfastError
from holdfast.network.load import parse_text
from holdfast.network.schema import Network
from holdfast.network.writing import to_toml
from holdfast.planner.plan import case_of, plan
from holdfast.reproduce.claims import Claim
from holdfast.reproduce.study import Runs, Scale

_SECONDS: dict[Scale, int] = {"quick": 120, "paper": 1_200}
_EVERY_S = 0.05
_SEED = 3
_WANTED = 0.05  # of the difference: half a second after each restart is a few hundredths at these times
_FILE: dict[str, Any] = {
    "seed": _SEED,
    "topology": {"kind": "line", "brokers": ["b1", "b2", "b3"]},
    "brokers": {"mtbf_s": 27.0, "mttr_s": 3.0},
    "links": {"delay_ms": 1},
    "protocol": {"heartbeat_s": 0.2, "lease_s": 0.7},
    "transport": {"kind": "tcp"},
}


def live_rows(scale: Scale, out: Path) -> Runs:
    """Kept in the folder, since it takes its time."""
    kept = out / "tables" / "live.json"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(_run(_SECONDS[scale], out)), encoding="utf-8")
    return Runs([json.loads(kept.read_text(encoding="utf-8"))])


def _run(seconds: int, out: Path) -> dict[str, Any]:
    data = {**_FILE, "duration_s": float(seconds), "client": list(_clients(seconds))}
    network = parse_text(data)
    file = out / "tables" / "live.toml"
    file.write_text(to_toml(data), encoding="utf-8")
    command = [sys.executable, "-c", "from holdfast.cli import main; main()", "up", str(file), "--in-process", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HoldfastError(f"the live run failed: {done.stderr.strip()[-400:]}")
    outcome = json.loads(done.stdout)
    [predicted] = plan(case_of(network), 1_000, _SEED)
    return {
        "seed": _SEED,
        "seconds": seconds,
        "predicted": predicted.counted.basic,
        "expected": _share_up(network),
        "measured": outcome["delivered"] / outcome["owed"],
        "owed": outcome["owed"],
    }


def _clients(seconds: int) -> Iterator[dict[str, Any]]:
    event = {"at_s": 2, "every_s": _EVERY_S, "until_s": seconds - 2, "attributes": {"kind": "a"}, "lifetime_s": 1.0}
    yield {"id": "source", "broker": "b1", "publish": [event]}
    yield {"id": "desk", "broker": "b3", "subscriptions": ["kind = 'a'"]}


def _share_up(network: Network) -> float:
    """Of the events, those published while all three brokers were up: from the same dice as the run's failures."""
    outages = []
    for broker in network.brokers:
        assert broker.mtbf_us is not None and broker.mttr_us is not None
        dice, at, changes = Random(f"{network.seed}/{broker.id}/failures"), 0, list[int]()
        while at < network.duration_us:
            mean_us = broker.mttr_us if len(changes) % 2 else broker.mtbf_us
            at += max(1, round(dice.expovariate(1 / mean_us)))
            changes.append(at)
        outages.append(changes)
    times = [publication.at_us for publication in network.publications()]
    return sum(all(bisect(each, at) % 2 == 0 for each in outages) for at in times) / len(times)


def live_claim(rows: Runs) -> Claim:
    [row] = rows.rows
    off = row["expected"] - row["measured"]
    return Claim(
        "live-basic",
        "live brokers that stop and start: share that arrives less than the model says for the same outages",
        f"at most {_WANTED} is wanted",
        off,
        abs(off) <= _WANTED,
        f"a line of 3 brokers, {row['seconds']} s, up 27 s and down 3 s on average, seed {row['seed']}",
        note=f"measured {row['measured']:.4f} of {row['owed']:,}; {row['expected']:.4f} were published with all "
        f"brokers up; the planner's long-run value is {row['predicted']:.4f}; brokers need a moment to find "
        "each other again",
    )
