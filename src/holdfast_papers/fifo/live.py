"""What order costs live brokers and clients in throughput: processor time for an event, with and without.

Other programs share the machine, so that nobody's rate is measured but the processor time of a whole run, less that of
a run in which next to nothing is published. What a processor then gives in a second is the throughput.
"""

from pathlib import Path
from typing import Any

from holdfast.pipeline.sweep.progress import Watch
from holdfast_papers.live import kept_runs, run_up
from holdfast_papers.study import Runs, Scale

ORDERS = ("none", "fifo", "strict")
_SECONDS = 16.0
_EVERY_S = 0.001
_IDLE_EVERY_S = 2.0
_SUBSCRIBERS = 4
_ROUNDS: dict[Scale, int] = {"quick": 5, "paper": 10}


def live_cells(scale: Scale) -> int:
    return _ROUNDS[scale] * (len(ORDERS) + 1)


def live_rows(scale: Scale, out: Path, watch: Watch | None = None) -> Runs:
    names = [f"{order}-{seed}" for seed in range(1, _ROUNDS[scale] + 1) for order in (*ORDERS, "idle")]
    return kept_runs(names, _measure, out / "tables" / "live", 1, watch)


def _measure(name: str, file: Path) -> dict[str, Any]:
    order, seed = name.rsplit("-", 1)
    outcome = run_up(_network(order, int(seed)), file)
    return {"order": order, "seed": int(seed)} | {key: outcome[key] for key in ("cpu_s", "delivered", "owed")}


def _network(order: str, seed: int) -> dict[str, Any]:
    every_s = _IDLE_EVERY_S if order == "idle" else _EVERY_S
    event = {"at_s": 2, "every_s": every_s, "until_s": _SECONDS - 2, "attributes": {"kind": "a", "price": 120}}
    clients: list[dict[str, object]] = [{"id": "source", "broker": "b1", "publish": [event]}]
    clients += [{"id": f"d{at}", "broker": "b3", "subscriptions": ["kind = 'a'"]} for at in range(_SUBSCRIBERS)]
    return {
        "seed": seed,
        "duration_s": _SECONDS,
        "topology": {"kind": "line", "brokers": ["b1", "b2", "b3"]},
        "links": {"delay_ms": 0},
        "transport": {"kind": "tcp"},
        "reliability": {"order": "none" if order == "idle" else order},
        "client": clients,
    }


def throughputs(rows: Runs, order: str) -> list[float]:
    """Deliveries for each second of processor time, by round."""
    mine, idle = rows.of(order=order), rows.of(order="idle")
    return [
        delivered / (spent_s - idle_s)
        for delivered, spent_s, idle_s in zip(
            mine.column("delivered"), mine.column("cpu_s"), idle.column("cpu_s"), strict=True
        )
    ]
