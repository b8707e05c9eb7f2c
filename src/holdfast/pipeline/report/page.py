"""The audit as one HTML file that stands alone: no script, no address, light and dark.

It draws what the audit has found and computes nothing but places and shares. Two runs side by side have their own page.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from holdfast.pipeline import number_format
from holdfast.pipeline.audit.compare import compared
from holdfast.pipeline.audit.expectations import Expectation
from holdfast.pipeline.audit.job import AuditedRun
from holdfast.pipeline.audit.metrics import MECHANISMS
from holdfast.pipeline.audit.slices import Shown
from holdfast.pipeline.report.delivery_charts import Curve, cumulated_delays, fates_over_time, ratios_over_time
from holdfast.pipeline.report.failover_card import failover
from holdfast.pipeline.report.html_parts import (
    bar,
    card,
    chips,
    columns,
    example_text,
    page,
    parts_bar,
    promises,
    state_of,
    table,
    tiles,
)
from holdfast.pipeline.report.network_picture import network_picture

_QUANTILES = ("p50", "p90", "p99", "max")
_STYLES = ("one", "two")  # of two runs that are compared


def report(run: AuditedRun, shown: Shown, expected: Sequence[Expectation] = ()) -> str:
    became = "What became of the events, by when they were published; each column is what was owed."
    times = [(each.failed_us, each.over_us, f"{each.broker} is replaced") for each in shown.failovers]
    over_time = fates_over_time(shown.slices, shown.slice_s, shown.marks, times)
    left = [
        *([card("Network", _NETWORK, _network(shown))] if shown.links else []),
        card("Delay", _DELAY, _delays(run, shown)),
        card("Order", _order_summary(run), _kept_in_order(run) + _order([(run, shown)])),
        card("Subscribers", _worst_summary(shown), _worst(shown)),
    ]
    right = [
        card("Delivery over time", became, over_time),
        card("How it came", _CAME, _mechanisms([run])),
        *([card("Failover", _FAILOVER, "".join(map(failover, shown.failovers)))] if shown.failovers else []),
        *([card("Predicted and measured", _EXPECTED, _expected(expected))] if expected else []),
        card("What it cost", _COST, _messages([run])),
    ]
    known = card("Promises", "", promises(run.verdicts), wide=True)
    return page(_title(run), _about(run), tiles(_tiles(run)), chips(run.verdicts), columns(left, right), known)


def comparison(runs: Sequence[tuple[AuditedRun, Shown]]) -> str:
    """Two runs side by side."""
    (one, shown), (two, _) = runs
    share = "The share of what was owed that was delivered, by when it was published."
    slices = [(run.label, f"line-{css}", each.slices) for (run, each), css in zip(runs, _STYLES, strict=True)]
    left = [
        card("Side by side", "", _figures(one, two)),
        card("How it came", _CAME, _mechanisms([one, two])),
        card("What it cost", _COST, _messages([one, two])),
        card("Promises", "", _promises_of_both(one, two)),
    ]
    right = [
        card("Delivery over time", share, ratios_over_time(slices, shown.slice_s)),
        card("Delay", _DELAY, cumulated_delays(list(_curves_of_both(runs)))),
        card("Order", "How far from their places events came.", _order(runs)),
        card(
            "Subscribers", f"Those that {_most([row for _, each in runs for row in each.worst])}.", _worst_of_both(runs)
        ),
    ]
    about = f"{escape(one.label)}: {_about(one)}<br>{escape(two.label)}: {_about(two)}"
    return page(f"{one.label} and {two.label}", about, columns(left, right))


_CAME = "First deliveries of what was owed, by mechanism."
_COST = "Messages sent by all nodes, by kind."
_DELAY = "From publishing to the application."
_NETWORK = "Messages that a link may lose, a second and both ways together, and the share it lost; wider is busier."
_FAILOVER = "A broker died and another took its place. Shares are of what was owed of the events published meanwhile."
_EXPECTED = "What the planner expected from the network file alone, and what this run gave."


def _title(run: AuditedRun) -> str:
    return str(run.about.get("name") or run.label)


def _about(run: AuditedRun) -> str:
    driver = {"sim": "simulated", "live": "live"}.get(str(run.about.get("driver")), "")
    seed = run.about.get("seed")
    words = [driver, f"seed {seed}" if seed is not None else "", f"{run.outcome.published:,} events published"]
    return " · ".join([*(escape(word) for word in words if word), f"<code>{escape(str(run.folder))}</code>"])


def _tiles(run: AuditedRun) -> Iterator[tuple[str, str, bool]]:
    outcome, delays = run.outcome, run.outcome.delay_us
    yield number_format.share(outcome.delivery_ratio), f"of {outcome.owed:,} owed was delivered", False
    yield number_format.count(outcome.lost), "lost", False
    yield number_format.count(outcome.late), "late: expired on the way", False
    yield number_format.count(sum(run.recovered.values())), "recovered", False
    yield number_format.count(outcome.duplicates), "duplicates", outcome.duplicates > 0
    avoided = run.figures["behind"] - outcome.fifo_violations
    yield number_format.count(outcome.fifo_violations), f"FIFO violations, {avoided:,} avoided", False
    yield number_format.time(delays.get("p50")), f"median delay, p99 {number_format.time(delays.get('p99'))}", False
    cost = run.overhead["bytes_per_delivery"]
    yield number_format.size(cost), "between brokers for each delivery", False


# One run -----------------------------------------------------------------------------------------------------------


def _delays(run: AuditedRun, shown: Shown) -> str:
    curves = [
        Curve(what, css, tuple(shown.distributions.get(what, ())))
        for what, css in (("original", "line-delivered"), ("recovered", "line-recovered"))
    ]
    names = {"original_delay": "original", "recovered_delay": "recovered", "delay": "all"}
    rows = [
        [words, *(number_format.time(run.delay_us(name).get(q)) for q in _QUANTILES)]
        for name, words in names.items()
        if run.delay_us(name)
    ]
    if len(rows) == 2:  # only one sort: then "all" is the same again
        rows = rows[:1]
    if run.delay_us("held"):
        held = (number_format.time(run.delay_us("held").get(q)) for q in _QUANTILES)
        rows.append([f"of that, {number_format.count(run.outcome.held)} held back for order", *held])
    return cumulated_delays(curves) + (table(["", *_QUANTILES], rows) if rows else "")


def _network(shown: Shown) -> str:
    seconds = (shown.slices[-1]["second"] - shown.slices[0]["second"] + shown.slice_s) if shown.slices else 1
    drawn = network_picture(shown.links, seconds, [each.broker for each in shown.failovers])
    return f'<div class="picture">{drawn}</div>'


def _expected(expected: Sequence[Expectation]) -> str:
    rows = [[escape(each.what), each.predicted_words, each.measured_words] for each in expected]
    notes = "".join(f"<li><b>{escape(each.what)}</b>: {escape(each.note)}</li>" for each in expected)
    how = f"<details><summary>how each was found</summary><ul>{notes}</ul></details>"
    return table(["", "predicted", "measured"], rows) + how


def _order_summary(run: AuditedRun) -> str:
    degree = number_format.degree(run.figures["ordering_degree"])
    return f"How far from their places events came. Ordering degree {degree}; 1 is in order, 0.6667 a random one."


def _kept_in_order(run: AuditedRun) -> str:
    """What holding back has done; nothing where nothing was held back."""
    deliveries, outcome = run.figures["deliveries"], run.outcome
    if not outcome.held:
        return ""
    rows = [
        [words, number_format.count(count), number_format.share(count / deliveries), bar(css, count, deliveries)]
        for words, count, css in (
            ("reached their subscriber after a later one", run.figures["behind"], "fill-late"),
            ("held back there for an earlier one", outcome.held, "fill-recovered"),
            ("handed over after a later one", outcome.fifo_violations, "fill-lost"),
        )
    ]
    return table(["events of one source", "", "share", ""], rows)


def _worst_summary(shown: Shown) -> str:
    everyone = shown.worst[0]["subscribers"] if shown.worst else 0
    which = f"The {len(shown.worst)} of {everyone:,} that {_most(shown.worst)}"
    return f"{which if everyone > len(shown.worst) else 'All of them'}; the table subscribers has every one."


def _most(worst: Sequence[Mapping[str, Any]]) -> str:
    missing = any(row["owed"] > row["delivered"] for row in worst)
    return "miss most" if missing else "waited longest; nobody misses anything"


def _worst(shown: Shown) -> str:
    if not shown.worst:
        return '<p class="empty">Nobody was owed anything.</p>'
    head = ["subscriber", "owed", "missing", "delivered", "", "p50", "p99", "FIFO"]
    rows = [
        [
            escape(row["subscriber"]),
            number_format.count(row["owed"]),
            number_format.count(row["owed"] - row["delivered"]),
            number_format.share(row["delivery_ratio"]),
            parts_bar(row["delivered"], row["owed"]),
            number_format.time(row["delay_p50_us"]),
            number_format.time(row["delay_p99_us"]),
            number_format.count(row["fifo_violations"]),
        ]
        for row in shown.worst
    ]
    return table(head, rows)


# One run or two ----------------------------------------------------------------------------------------------------


def _fill(runs: Sequence[Any], at: int, name: str = "") -> str:
    if len(runs) > 1:
        return f"fill-{_STYLES[at]}"
    if name == "replica":
        return "fill-replica"
    return "fill-recovered" if name in MECHANISMS else "fill-delivered"


def _rows_of_bars(
    names: Sequence[str], numbers: Sequence[Callable[[str], float]], wholes: Sequence[float], runs: Sequence[AuditedRun]
) -> Iterator[list[str]]:
    """A name, for each run its number and share, and one bar for each run below the other."""
    for name in names:
        row = [escape(name)]
        for number, total in zip(numbers, wholes, strict=True):
            row += [number_format.count(number(name)), number_format.share(number(name) / total if total else None)]
        yield [
            *row,
            "".join(
                bar(_fill(runs, at, name), number(name), total, run.label)
                for at, (number, total, run) in enumerate(zip(numbers, wholes, runs, strict=True))
            ),
        ]


def _heads(runs: Sequence[AuditedRun], *columns: str) -> list[str]:
    return [f"{column} {run.label}" if len(runs) > 1 else column for run in runs for column in columns]


def _mechanisms(runs: Sequence[AuditedRun]) -> str:
    came = [{"original": run.outcome.delivered - sum(run.recovered.values()), **run.recovered} for run in runs]
    names = ["original", *(via for via in runs[0].recovered if any(each[via] for each in came))]
    rows = _rows_of_bars(names, [each.__getitem__ for each in came], [run.outcome.delivered for run in runs], runs)
    made = table(["", *_heads(runs, "deliveries", "share"), ""], rows)
    return made if len(names) > 1 else made + '<p class="says">Nothing was recovered by any other way.</p>'


def _order(runs: Sequence[tuple[AuditedRun, Shown]]) -> str:
    spreads = [dict(shown.distributions.get("displacement", ())) for _, shown in runs]
    classes = sorted({_upper(most) for spread in spreads for most in spread})
    if not classes:
        return '<p class="empty">Nothing was delivered.</p>'
    counts = [{_places(_upper(most)): count for most, count in spread.items()} for spread in spreads]
    numbers = [lambda name, found=found: found.get(name, 0) for found in counts]
    audited = [run for run, _ in runs]
    rows = _rows_of_bars(list(map(_places, classes)), numbers, [sum(each.values()) for each in counts], audited)
    return table(["", *_heads(audited, "events", "share"), ""], rows)


def _upper(displacement: int) -> int:
    """The end of its class: 0, 1, 2, 4, 8 …"""
    return displacement if displacement <= 1 else 1 << (displacement - 1).bit_length()


def _places(upper: int) -> str:
    if upper == 0:
        return "in place"
    return f"{upper} off" if upper <= 2 else f"{upper // 2 + 1} to {upper} off"


def _messages(runs: Sequence[AuditedRun]) -> str:
    kinds = sorted({kind for run in runs for kind in run.outcome.messages}, key=lambda kind: -_bytes(runs[0], kind))
    most = max((_bytes(run, kind) for run in runs for kind in kinds), default=0)
    rows = []
    for kind in kinds:
        row = [escape(kind)]
        for run in runs:
            counts = run.outcome.messages.get(kind, {})
            row += [number_format.count(counts.get("sent", 0)), number_format.count(counts.get("lost", 0))]
            row.append(number_format.size(_bytes(run, kind)))
        row.append("".join(bar(_fill(runs, at), _bytes(run, kind), most, run.label) for at, run in enumerate(runs)))
        rows.append(row)
    costs = [
        [words, *(read(run.overhead[name]) for run in runs)]
        for name, words, read in (
            ("transmissions_per_delivery", "messages between brokers for each delivery", number_format.ratio),
            ("bytes_per_delivery", "bytes between brokers for each delivery", number_format.size),
            ("control_message_ratio", "messages that carry no event", number_format.share),
            ("control_byte_ratio", "bytes that carry no event", number_format.share),
        )
    ]
    return table(["kind", *_heads(runs, "sent", "lost", "bytes"), ""], rows) + table(["", *_heads(runs, "")], costs)


def _bytes(run: AuditedRun, kind: str) -> int:
    return run.outcome.messages.get(kind, {}).get("bytes", 0)


# Two runs ----------------------------------------------------------------------------------------------------------


def _figures(one: AuditedRun, two: AuditedRun) -> str:
    rows = [
        [escape(row.name), row.one, row.two, f'<span class="{row.verdict}">{escape(row.difference)}</span>']
        for row in compared(one, two)
    ]
    return table(["", one.label, two.label, "difference"], rows)


def _promises_of_both(one: AuditedRun, two: AuditedRun) -> str:
    rows, broken = [], []
    for name in one.verdicts:
        row = [f"<b>{name}</b>"]
        for run in (one, two):
            verdict = run.verdicts[name]
            word, css = state_of(verdict)
            row += [f'<span class="state {css}">{word}</span>', number_format.count(verdict.broken)]
            if not verdict.holds:
                such = f", such as <code>{escape(example_text(verdict.examples[0]))}</code>" if verdict.examples else ""
                broken.append(f'<p class="says">{escape(run.label)} breaks {name}{such}</p>')
        rows.append(row)
    return table(["", *_heads([one, two], "", "against it,")], rows) + "".join(broken)


def _curves_of_both(runs: Sequence[tuple[AuditedRun, Shown]]) -> Iterator[Curve]:
    for (run, shown), css in zip(runs, _STYLES, strict=True):
        original, recovered = (tuple(shown.distributions.get(what, ())) for what in ("original", "recovered"))
        yield Curve(run.label, f"line-{css}", original)
        yield Curve(f"{run.label} recovered", f"line-{css}-recovered", recovered)


def _worst_of_both(runs: Sequence[tuple[AuditedRun, Shown]]) -> str:
    rows = [
        [
            escape(row["subscriber"]),
            escape(run.label),
            number_format.count(row["owed"]),
            number_format.count(row["owed"] - row["delivered"]),
            number_format.share(row["delivery_ratio"]),
            bar(f"fill-{css}", row["delivered"], row["owed"], run.label),
        ]
        for (run, shown), css in zip(runs, _STYLES, strict=True)
        for row in shown.worst[: 15 // len(runs)]
    ]
    return table(["subscriber", "run", "owed", "missing", "delivered", ""], rows, left=2)
