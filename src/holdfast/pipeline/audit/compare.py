"""Two runs side by side: the same figures of both and what lies between them, in words that fit a table."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.pipeline import number_format
from holdfast.pipeline.audit.job import AuditedRun


@dataclass(frozen=True)
class Compared:
    name: str
    one: str
    two: str
    difference: str
    verdict: str  # better, worse, or nothing, of the second run


def compared(one: AuditedRun, two: AuditedRun) -> Iterator[Compared]:
    for name, read, get, better in _FIGURES:
        first, second = get(one), get(two)
        yield Compared(name, read(first), read(second), *_difference(first, second, read, better))


def _difference(
    first: float | None, second: float | None, read: Callable[[float | None], str], better: int
) -> tuple[str, str]:
    """`better` says which way is better: up (1), down (-1), or neither."""
    if first is None or second is None or first == second:
        return "", ""
    change = second - first
    sign = "+" if change > 0 else "−"
    text = f"{abs(100 * change):.2f} points" if read is number_format.share else read(abs(change))
    verdict = "" if not better else "better" if change * better > 0 else "worse"
    return f"{sign}{text}", verdict


def _outcome(name: str) -> Callable[[AuditedRun], Any]:
    return lambda run: getattr(run.outcome, name)


def _delay(name: str, quantile: str) -> Callable[[AuditedRun], Any]:
    return lambda run: run.delay_us(name).get(quantile)


def _overhead(name: str) -> Callable[[AuditedRun], Any]:
    return lambda run: run.overhead[name]


_FIGURES: tuple[tuple[str, Callable[[float | None], str], Callable[[AuditedRun], Any], int], ...] = (
    ("published", number_format.count, _outcome("published"), 0),
    ("owed", number_format.count, _outcome("owed"), 0),
    ("delivered", number_format.count, _outcome("delivered"), 0),
    ("delivered of what was owed", number_format.share, _outcome("delivery_ratio"), 1),
    ("lost", number_format.count, _outcome("lost"), -1),
    ("late", number_format.count, _outcome("late"), -1),
    ("recovered", number_format.count, lambda run: sum(run.recovered.values()), 0),
    ("duplicates", number_format.count, _outcome("duplicates"), -1),
    ("FIFO violations", number_format.count, _outcome("fifo_violations"), -1),
    ("ordering degree", number_format.degree, lambda run: run.figures["ordering_degree"], 1),
    ("delay p50", number_format.time, _delay("delay", "p50"), -1),
    ("delay p90", number_format.time, _delay("delay", "p90"), -1),
    ("delay p99", number_format.time, _delay("delay", "p99"), -1),
    ("delay max", number_format.time, _delay("delay", "max"), -1),
    ("delay of what was recovered, p50", number_format.time, _delay("recovered_delay", "p50"), -1),
    ("held back", number_format.count, _outcome("held"), 0),
    ("held back for, p50", number_format.time, _delay("held", "p50"), -1),
    ("messages between brokers", number_format.count, _outcome("transmissions"), -1),
    ("bytes between brokers", number_format.size, _outcome("bytes"), -1),
    ("messages for each delivery", number_format.ratio, _overhead("transmissions_per_delivery"), -1),
    ("bytes for each delivery", number_format.size, _overhead("bytes_per_delivery"), -1),
)
