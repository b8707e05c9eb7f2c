"""The promises as lamps while a run goes on, and what put one out.

A lamp is no verdict: the audit gives that when the trace is complete. It shows what can be told at once, and says which
promises need the whole trace.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from holdfast.console.board import Entry
from holdfast.console.stream_view import PromiseNumbers

LampState = Literal["holds", "waiting", "broken", "unpromised", "later"]


@dataclass(frozen=True)
class Promised:
    """What the network file asks for, as far as lamps go."""

    order: str = "none"  # or fifo, strict
    recovery: bool = False
    stores: bool = False
    replication: bool = False


def lamps(found: PromiseNumbers, promised: Promised, unreplaced: list[str]) -> Iterator[tuple[str, Entry]]:
    yield _lamp(
        "P1", "Only what matches", bool(found.unmatched), f"{found.unmatched:,} delivered that match nothing", found
    )
    yield _lamp("P2", "At most once", bool(found.duplicates), f"{found.duplicates:,} delivered twice", found)
    yield _order(found, promised)
    yield _delivery(found, promised)
    state: LampState = "later" if promised.stores else "unpromised"
    words = "judged by the audit" if promised.stores else "no broker stores events"
    yield "P5", _entry("What is acknowledged survives", state, words)
    yield _replication(promised, unreplaced)
    yield _lamp("P7", "Within limits", bool(found.beyond), f"{len(found.beyond):,} beyond a limit", found)
    yield "P8", _entry("Same seed, same run", "later", "needs two simulated runs")


def _order(found: PromiseNumbers, promised: Promised) -> tuple[str, Entry]:
    title = "In order, per publisher"
    words = f"{found.overtaken:,} came after a later one"
    if promised.order == "strict":
        return _lamp("P3", title, bool(found.overtaken), words, found)
    if promised.order == "none":
        return "P3", _entry(title, "unpromised", f"{words}; the file asks for no order")
    return "P3", _entry(title, "later", f"{words}; fifo allows a share of them, which the audit judges")


def _delivery(found: PromiseNumbers, promised: Promised) -> tuple[str, Entry]:
    title = "What is owed arrives or is named"
    if not found.missing and not found.lost:
        return "P4", _entry(title, "holds", "nothing is missing")
    if found.lost:
        words = f"{found.lost:,} given up and named, {found.missing:,} missing"
        return "P4", _entry(title, "waiting", f"{words}; the audit asks whether each has a cause")
    return "P4", _entry(
        title,
        "waiting",
        f"{found.missing:,} on their way" + (" or being recovered" if promised.recovery else ", or lost on links"),
    )


def _replication(promised: Promised, unreplaced: list[str]) -> tuple[str, Entry]:
    title = "A dead broker is replaced"
    if not promised.replication:
        return "P6", _entry(title, "unpromised", "the file asks for no replication")
    if unreplaced:
        return "P6", _entry(title, "waiting", f"{', '.join(unreplaced)} is being replaced")
    return "P6", _entry(title, "holds", "nobody waits for a replica")


def _lamp(promise: str, title: str, broken: bool, words: str, found: PromiseNumbers) -> tuple[str, Entry]:
    entry = _entry(title, "broken" if broken else "holds", words if broken else "nothing against it")
    entry["examples"] = list(found.examples.get(promise, ()))
    return promise, entry


def _entry(title: str, state: LampState, words: str) -> Entry:
    return {"title": title, "state": state, "words": words, "examples": []}
