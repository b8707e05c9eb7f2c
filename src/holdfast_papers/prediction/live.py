"""The planner beside live networks: brokers that stop and start again by the network file, seconds instead of hours.

Every scheme runs over several seeds, all at once, since brokers mostly wait. Failures come from the file's own dice, so
of every event we know what the model expects for the very same outages (`planner/outages.py`); in a run of a minute or
two that is a far better yardstick than the long-run share that the planner gives, which is shown as well. Live brokers
need a moment to find each other again, which the model does not have."""

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import Any

from holdfast.model.errors import HoldfastError
from holdfast.network.load import parse_text
from holdfast.network.schema import Network
from holdfast.network.writing import to_toml
from holdfast.pipeline.sweep.progress import Progress, Watch
from holdfast.planner.overlay import overlay_of
from holdfast.planner.plan import case_of, plan
from holdfast_papers.claims import Claim
from holdfast_papers.estimates import difference, estimate
from holdfast_papers.prediction.outages import arrives, outages_of
from holdfast_papers.study import Runs, Scale
from holdfast_papers.verdicts import about

SCHEMES = ("basic", "retransmission", "multipath", "hybrid")
_SECONDS: dict[Scale, int] = {"quick": 90, "paper": 600}
LIVE_SEEDS: dict[Scale, int] = {"quick": 10, "paper": 20}
_AT_ONCE = 8  # runs: five brokers each, which together keep most of a core busy
_EVERY_S = 0.1
_LIFETIME_S = 1.5  # half of a mean outage
_END_S = 5  # for what is still waiting when nothing more is published
_WANTED = 0.05  # of the difference: half a second after each restart is a few hundredths at these times
_BROKERS = ["b1", "b2", "b3", "b4", "b5"]
_RING = [["b1", "b2"], ["b2", "b3"], ["b3", "b4"], ["b4", "b5"], ["b5", "b1"]]


def live_file(scheme: str, seed: int, seconds: int) -> dict[str, Any]:
    """From b1 to b3 through b2, and with a ring also through b5 and b4.

    For basic it is a line: brokers that route by destinations go round a dead one as soon as its lease is over.
    """
    line = scheme == "basic"
    event = {"at_s": 2, "every_s": _EVERY_S, "until_s": seconds - _END_S, "attributes": {"kind": "a"}}
    return {
        "seed": seed,
        "duration_s": float(seconds),
        "routing": "subscriptions" if line else "destinations",
        "topology": {
            "kind": "listed",
            "brokers": _BROKERS[:3] if line else _BROKERS,
            "links": _RING[:2] if line else _RING,
        },
        "brokers": {"mtbf_s": 27.0, "mttr_s": 3.0},
        "links": {"delay_ms": 1},
        "protocol": {"heartbeat_s": 0.2, "lease_s": 0.7},
        "reliability": {"hops": scheme, "beat_ms": 100},
        "transport": {"kind": "tcp"},
        "client": [
            {"id": "source", "broker": "b1", "publish": [{**event, "lifetime_s": _LIFETIME_S}]},
            {"id": "desk", "broker": "b3", "subscriptions": ["kind = 'a'"]},
        ],
    }


def live_rows(scale: Scale, out: Path, watch: Watch | None = None) -> Runs:
    """Each is kept in the folder when it is over, since they take their time."""
    folder = out / "tables" / "live"
    folder.mkdir(parents=True, exist_ok=True)
    asked = [(scheme, seed) for seed in range(1, LIVE_SEEDS[scale] + 1) for scheme in SCHEMES]
    files = {each: folder / f"{each[0]}-{each[1]}-{_SECONDS[scale]}.json" for each in asked}
    missing = [each for each in asked if not files[each].exists()]
    began, before = monotonic(), len(asked) - len(missing)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        runs = {threads.submit(_run, *each, _SECONDS[scale], folder): each for each in missing}
        for done, run in enumerate(as_completed(runs), before + 1):
            beside = files[runs[run]].with_suffix(".part")
            beside.write_text(json.dumps(run.result()), encoding="utf-8")
            beside.replace(files[runs[run]])
            if watch is not None:
                watch(Progress(len(asked), before, done, 0, monotonic() - began))
    return Runs([json.loads(files[each].read_text(encoding="utf-8")) for each in asked])


def _run(scheme: str, seed: int, seconds: int, folder: Path) -> dict[str, Any]:
    data = live_file(scheme, seed, seconds)
    network = parse_text(data)
    file = folder / f"{scheme}-{seed}.toml"
    file.write_text(to_toml(data), encoding="utf-8")
    command = [sys.executable, "-c", "from holdfast.cli import main; main()", "up", str(file), "--in-process", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HoldfastError(f"the live run of {scheme} failed: {done.stderr.strip()[-400:]}")
    outcome = json.loads(done.stdout)
    [predicted] = plan(case_of(network), 1_000, seed)
    return {
        "scheme": scheme,
        "seed": seed,
        "seconds": seconds,
        "predicted": predicted.of(scheme, "counted"),
        "expected": _expected(network, scheme),
        "measured": outcome["delivered"] / outcome["owed"],
        "owed": outcome["owed"],
    }


def _expected(network: Network, scheme: str) -> float:
    """Of the events, those that the model lets arrive in time, with the outages of this run."""
    overlay, outages = overlay_of(network), outages_of(network)
    path = overlay.path(0, 2)
    assert path is not None
    times_s = [publication.at_us / 1e6 for publication in network.publications()]
    return sum(arrives(overlay, path, outages, at_s, _LIFETIME_S)[scheme] for at_s in times_s) / len(times_s)


def live_claims(rows: Runs) -> Iterator[Claim]:
    for scheme in SCHEMES:
        mine = rows.of(scheme=scheme)
        settings = f"{'a line of 3' if scheme == 'basic' else 'a ring of 5'} live brokers in one process, "
        settings += f"{mine.rows[0]['seconds']} s, up 27 s and down 3 s on average, lifetime {_LIFETIME_S} s, "
        settings += f"seeds 1 to {len(mine.rows)}"
        measured, expected = estimate(mine.column("measured")), fmean(mine.column("expected"))
        between = measured.interval
        shown = f"{measured.value:.4f}" + (f" ({between[0]:.4f} to {between[1]:.4f})" if between else "")
        yield Claim(
            f"live-{scheme}",
            f"live brokers that stop and start, {scheme}: how much less arrives than the model says for these outages",
            f"at most {_WANTED} is wanted",
            difference(mine.column("expected"), mine.column("measured")),
            about(0, _WANTED),
            "ours",
            settings,
            f"measured {shown} of {sum(mine.column('owed')):,}, the model {expected:.4f}; brokers need a moment to "
            "find each other again",
        )
        predicted = mine.rows[0]["predicted"]
        yield Claim(
            f"live-{scheme}-planned",
            f"live brokers that stop and start, {scheme}: share that arrives; the planner's long-run value beside it",
            f"{predicted:.4f} is predicted; within {_WANTED} of it is wanted",
            measured,
            about(predicted, _WANTED),
            "ours",
            settings,
            "so few outages leave the interval wide",
        )
