"""The planner beside live networks: brokers that stop and start again by the network file, seconds instead of hours.

Every scheme runs over several seeds, all at once, since brokers mostly wait. Failures come from the file's own dice, so
of every event we know what the model expects for the very same outages (`planner/outages.py`); in a run of a minute or
two that is a far better yardstick than the long-run share that the planner gives, which is shown as well. Live brokers
need a moment to find each other again, which the model does not have."""

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from holdfast.network.load import parse_text
from holdfast.network.schema import Network
from holdfast.pipeline.sweep.progress import Watch
from holdfast.planner.overlay import overlay_of
from holdfast.planner.plan import case_of, plan
from holdfast_papers.claims import Claim
from holdfast_papers.estimates import difference, estimate
from holdfast_papers.live import kept_runs, run_up
from holdfast_papers.prediction.outages import outages_of, share_in_time
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
_PLANNED = 0.01  # of the planner's value: nothing is added for finding each other again
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
    asked = {
        f"{scheme}-{seed}-{_SECONDS[scale]}": (scheme, seed)
        for seed in range(1, LIVE_SEEDS[scale] + 1)
        for scheme in SCHEMES
    }

    def measure(name: str, file: Path) -> dict[str, Any]:
        return _run(*asked[name], _SECONDS[scale], file)

    return kept_runs(list(asked), measure, out / "tables" / "live", _AT_ONCE, watch)


def _run(scheme: str, seed: int, seconds: int, file: Path) -> dict[str, Any]:
    data = live_file(scheme, seed, seconds)
    network, outcome = parse_text(data), run_up(data, file)
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
    return share_in_time(overlay, path, outages, times_s, _LIFETIME_S, scheme)


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
            f"{predicted:.4f} is predicted; within {_PLANNED} of it is wanted",
            measured,
            about(predicted, _PLANNED),
            "ours",
            settings,
            "so few outages leave the interval wide",
        )
