"""The demo in one screen: what was published, owed and delivered, and what it took. docs/demo.md explains each line."""

from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.demo.episodes import Episode
from holdfast.demo.mqtt_desk import DeskCount
from holdfast.pipeline import number_format
from holdfast.pipeline.audit.expectations import Expectation
from holdfast.pipeline.audit.failover import AuditedFailover
from holdfast.pipeline.audit.job import AuditedRun
from holdfast.pipeline.audit.slices import Shown
from holdfast.pipeline.report.html_parts import state_of

_NAME = 26


def summary(
    run: AuditedRun, shown: Shown, expected: Sequence[Expectation], met: Sequence[Episode], desk: DeskCount, lag_us: int
) -> str:
    lines = [f"{run.about.get('name')}, seed {run.about.get('seed')}"]
    lines += [f"  {name:<{_NAME}}{text}".rstrip() for name, text in _rows(run, shown, met, desk, lag_us)]
    lines += ["", f"  {'predicted and measured':<{_NAME}}{'predicted':>12}{'measured':>22}"]
    lines += [f"    {each.what:<{_NAME - 2}}{each.predicted_words:>12}{each.measured_words:>22}" for each in expected]
    return "\n".join([*lines, "", *_promises(run)])


def _rows(
    run: AuditedRun, shown: Shown, met: Sequence[Episode], desk: DeskCount, lag_us: int
) -> Iterator[tuple[str, str]]:
    outcome, recovered = run.outcome, run.recovered
    subscribers = shown.worst[0]["subscribers"] if shown.worst else 0
    yield "published", number_format.count(outcome.published)
    yield "owed", f"{outcome.owed:,} deliveries to {subscribers} subscribers"
    unaided = outcome.delivered - sum(recovered.values())
    yield "delivered", ""
    yield "  without recovery", _of(unaided, outcome.owed, "by the original path")
    yield "  with recovery", _of(outcome.delivered, outcome.owed, _by_via(recovered))
    held = run.delay_us("held").get("p50")
    waited = f"; {outcome.held:,} events were held back, half of them less than {number_format.time(held)}"
    left = f"{outcome.fifo_violations:,} left"
    yield "FIFO violations avoided", f"{run.figures['behind'] - outcome.fifo_violations:,}, {left}{waited}"
    for failover in shown.failovers:
        yield from _failover(failover)
    for each in met:
        yield from _absence(each) if each.kind == "absence" else _burst(each)
    copies = f", and {desk.twice:,} copies" if desk.twice else ""
    yield "over MQTT", f"a desk at rome got {desk.delivered:,} of the {desk.owed:,} events that it asked for{copies}"
    dropped = outcome.incidents.get("dropped", 0)
    behind = f"publishers at most {number_format.time(lag_us)} behind schedule"
    yield "overload", f"{dropped:,} events dropped; {behind}"


def _of(part: int, total: int, how: str) -> str:
    return f"{part:>7,}  {number_format.share(part / total if total else None):>9}  {how}"


def _by_via(recovered: dict[str, int]) -> str:
    words = {"repair": "repaired by their publishers", "replica": "had waited for the replica"}
    return ", ".join(f"{count:,} {words.get(via, via)}" for via, count in recovered.items() if count)


def _failover(found: AuditedFailover) -> Iterator[tuple[str, str]]:
    noticed, ready = (number_format.time(at - found.failed_us) for at in (found.noticed_us, found.ready_us))
    during = found.during
    yield (
        "failover",
        f"{found.broker} killed at {found.failed_us / 1e6:.1f} s, noticed after {noticed}, replaced after {ready}",
    )
    extra = f"{found.recovered_for_it:,.0f} more than links alone cost"
    yield "  meanwhile", f"{during.owed:,} owed: {during.replica:,} waited for the replica,"
    yield "", f"{during.recovered:,} were recovered ({extra}), {during.missing:,} were lost;"
    slowest = f"the slowest took {number_format.time(during.delay_max_us)}"
    yield "", f"{slowest}, half of them {number_format.time(during.delay_p50_us)} or less"


def _absence(found: Episode) -> Iterator[tuple[str, str]]:
    yield "absence", f"{found.client} away from {found.from_us / 1e6:.1f} s to {found.until_us / 1e6:.1f} s"
    after = (
        "" if found.last_us is None else f"; the last came {number_format.time(found.last_us - found.until_us)} later"
    )
    yield "  meanwhile", f"{found.owed:,} owed: {found.recovered:,} were recovered, {found.missing:,} were lost{after}"


def _burst(found: Episode) -> Iterator[tuple[str, str]]:
    lasted = number_format.time(found.until_us - found.from_us)
    yield "burst", f"{found.client} published {found.published:,} more at {found.from_us / 1e6:.1f} s, within {lasted}"
    half = f"half of them took {number_format.time(found.delay_p50_us)} or less"
    yield "  of it", f"{found.owed:,} owed: {found.recovered:,} were recovered, {found.missing:,} were lost; {half}"


_VERBS = {"holds": "hold"}


def _promises(run: AuditedRun) -> Iterator[str]:
    by_state: dict[str, list[str]] = {}
    for name, verdict in run.verdicts.items():
        by_state.setdefault(state_of(verdict)[0], []).append(name)
    words = "; ".join(f"{' '.join(names)} {_VERBS.get(state, state)}" for state, names in by_state.items())
    yield f"  {'promises':<{_NAME}}{words}"
    for verdict in run.broken:
        such = f", such as {verdict.examples[0]}" if verdict.examples else ""
        yield f"  {verdict.promise} is broken: {verdict.broken:,} of {verdict.checked:,}{such}"


def as_json(
    run: AuditedRun, shown: Shown, expected: Sequence[Expectation], met: Sequence[Episode], desk: DeskCount, lag_us: int
) -> dict[str, Any]:
    """The same for machines."""
    return {
        **run.as_json(),
        "without_recovery": run.outcome.delivered - sum(run.recovered.values()),
        "fifo_violations_avoided": run.figures["behind"] - run.outcome.fifo_violations,
        "failovers": [
            {
                "broker": each.broker,
                "replica": each.replica,
                "failed_us": each.failed_us,
                "noticed_us": each.noticed_us,
                "asked_us": each.asked_us,
                "ready_us": each.ready_us,
                "during": vars(each.during),
                "otherwise": vars(each.otherwise),
            }
            for each in shown.failovers
        ],
        "mqtt": vars(desk),
        "episodes": [vars(each) for each in met],
        "expected": [
            {
                "what": each.what,
                "unit": each.unit,
                "predicted": each.predicted,
                "measured": each.measured,
                "error": each.error,
            }
            for each in expected
        ],
        "lag_us": lag_us,
    }
