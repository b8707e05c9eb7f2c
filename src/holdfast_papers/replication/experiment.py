"""Paper 003, replication on demand: its table, its five figures and what it says about them.

Service times are fitted once, to three numbers of figure 7 at 10,000 subscriptions (`Costs`); what those give there is
no evidence, and claims that rest on it say so. Everything else follows. The tenth protocol, "ordered", is ours.

Its machines are not ours, so seconds are not compared, but shares and factors are: within a tenth of the paper's. What
it calls flat changes by no more than a tenth, and what improves "substantially" improves by more.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from holdfast.model.messages import ReplicaUse
from holdfast.pipeline.charts.lines import Line, LineChart
from holdfast_papers.claims import Claim, Origin
from holdfast_papers.estimates import Estimate, difference, estimate, extreme, ratio, spot
from holdfast_papers.models import measured
from holdfast_papers.replication.cells import COMPARED, COPYING, measure, models
from holdfast_papers.replication.table import PAPER
from holdfast_papers.study import Row, Runs, Scale, Study, WatchParts
from holdfast_papers.verdicts import Allowed, about, at_least, at_most, less_than, more_than

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FITTED = "service times were fitted to this"
_RO, _MS = "reordering", "scheduling"
_FLAT = about(1)
_ORDERED = at_least(1, "every")


def _means(runs: Runs, metric: str) -> list[float]:
    """By seed."""
    return [fmean(each.column(metric)) for each in runs.by_seed()]


def _mean(runs: Runs, metric: str, **settings: object) -> Estimate:
    return estimate(_means(runs.of(**settings), metric))


def _lowest(runs: Runs, metric: str, **settings: object) -> Estimate:
    """For a claim about every run."""
    found = runs.of(**settings).by_seed()
    return extreme(min(min(each.column(metric)) for each in found), len(found))


def _ratio(runs: Runs, metric: str, above: Mapping[str, object], below: Mapping[str, object]) -> Estimate:
    """Of two settings, seed by seed."""
    return ratio(_means(runs.of(**above), metric), _means(runs.of(**below), metric))


def _less(runs: Runs, metric: str, less: Mapping[str, object], than: Mapping[str, object]) -> Estimate:
    return _ratio(runs, metric, less, than).through(lambda factor: 1 - factor)


def _settings(runs: Runs, words: str) -> str:
    return f"{words}; seeds 1 to {max(row['seed'] for row in runs.rows)}"


def _claims(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    yield from _table(runs["table"])
    yield from _population(runs["population"])
    yield from _population_order(runs["population"])
    yield from _fanout(runs["fanout"])
    yield from _pending(runs["pending"])
    yield from _neighbours(runs["neighbours"])
    yield from _congestion(runs["congestion"])
    yield _messages(runs["population"])


# Table 1 ---------------------------------------------------------------------------------------------------------


def _table(runs: Runs) -> Iterator[Claim]:
    """A tick needs that no run breaks the promise, a cross that one does."""
    strength: dict[ReplicaUse, str] = {"failover": "weak", "scheduling": "strong", "reordering": "strong"}
    for use, strong in strength.items():
        for copying in COPYING:
            for at, promise in enumerate(("complete", "ordered")):
                rows = runs.of(copying=copying, use=use).rows
                broken = [row for row in rows if row[promise] is not None]
                in_paper = PAPER.get((copying, use))
                note = f"for example {broken[0][promise]} (seed {broken[0]['seed']})" if broken else ""
                wanted = in_paper[at] if in_paper is not None else not (use == _MS and promise == "ordered")
                words = "kept" if wanted else "broken"
                if (copying, use, promise) == ("incremental", _RO, "ordered"):
                    note = "the paper's text rules this protocol out, its table ticks it; marks make it true"
                yield Claim(
                    f"003-table-{copying}-{use}-{promise}",
                    f"{copying}, {use}: share of runs with {strong} {promise} delivery",
                    words if in_paper is not None else f"{words} is wanted",
                    extreme(1 - len(broken) / len(rows), len(rows)),
                    at_least(1, "every") if wanted else less_than(1, "one"),
                    "ours" if in_paper is None else "paper",
                    f"seeds 1 to {len(rows)}",
                    note,
                )


# Figures 7 to 11 -------------------------------------------------------------------------------------------------


def _sizes(runs: Runs) -> tuple[int, int]:
    found = [row["subscriptions"] for row in runs.rows]
    return min(found), max(found)


def _population(runs: Runs) -> Iterator[Claim]:
    least, most = _sizes(runs)
    settings = _settings(runs, f"{most:,} subscriptions, 100 pending")
    at = {copying: {"copying": copying, "subscriptions": most} for copying in COPYING}
    sooner = _less(runs, "resumption_s", at["incremental"], at["synchronous"])
    words = "incremental resumes sooner than synchronous by"
    yield Claim("003-a-sooner", words, "0.47", sooner, about(0.47), "fitted", settings, _FITTED)
    times = most / least
    for copying, paper, allowed in (
        ("synchronous", "in proportion", about(times)),
        ("incremental", "less than in proportion", Allowed(10, times, strict=True)),
    ):
        yield Claim(
            f"003-a-grows-{copying}",
            f"{copying}: {times:g} times the subscriptions delay resumption by a factor of",
            paper,
            _ratio(
                runs,
                "resumption_s",
                {"copying": copying, "subscriptions": most},
                {"copying": copying, "subscriptions": least},
            ),
            allowed,
            "paper",
            _settings(runs, f"{least:,} to {most:,} subscriptions"),
        )
    dropped = _mean(runs, "dropped", **at["basic"])
    yield Claim("003-a-drops", "basic drops a share of", "0.02", dropped, about(0.02), "paper", settings)
    yield Claim(
        "003-a-basic",
        "basic resumes in so much of incremental's time",
        "slightly less",
        _ratio(runs, "resumption_s", at["basic"], at["incremental"]),
        Allowed(0.9, 1, strict=True),
        "paper",
        settings,
    )
    shorter = _less(runs, "replication_s", at["synchronous"], at["incremental"])
    words = "synchronous replicates sooner than incremental by"
    yield Claim("003-c", words, "0.31", shorter, about(0.31), "fitted", settings, _FITTED)
    yield Claim(
        "ours-ordered",
        "ordered resumes in so much of incremental's time",
        "at most 1 is wanted",
        _ratio(runs, "resumption_s", at["ordered"], at["incremental"]),
        at_most(1),
        "ours",
        settings,
    )


def _population_order(runs: Runs) -> Iterator[Claim]:
    _, most = _sizes(runs)
    settings = _settings(runs, f"{most:,} subscriptions, 100 pending")
    origin: Origin
    for copying, paper, allowed, origin in (
        ("synchronous", "1", _ORDERED, "paper"),
        ("incremental", "about 0.8", about(0.8), "paper"),
        ("ordered", "1 is wanted", _ORDERED, "ours"),
    ):
        measure_of = _lowest if allowed is _ORDERED else _mean
        order = measure_of(runs, "ordering", copying=copying, subscriptions=most)
        yield Claim(f"003-b-{copying}", f"{copying}: ordering degree", paper, order, allowed, origin, settings)


def _fanout(runs: Runs) -> Iterator[Claim]:
    settings = _settings(runs, "1,000 subscriptions, 500 pending")
    yield Claim(
        "003-d-sooner",
        "whatever the fan-out, incremental resumes sooner than synchronous by",
        "about 0.62",
        _less(runs, "resumption_s", {"copying": "incremental"}, {"copying": "synchronous"}),
        about(0.62),
        "paper",
        settings,
    )
    low, high = _by_fanout(runs.of(copying="incremental"), 3)
    text = "incremental: degree of order at"
    orders = [_means(each, "ordering") for each in (low, high)]
    yield Claim(
        "003-d-order-low",
        f"{text} low fan-out",
        "as low as about 0.6",
        estimate(orders[0]),
        about(0.6),
        "paper",
        settings,
    )
    yield Claim(
        "003-d-order-high",
        f"{text} high fan-out",
        "approaches 1",
        estimate(orders[1]),
        at_least(0.98),
        "paper",
        settings,
    )
    yield Claim(
        "003-d-order-rises",
        f"{text} high fan-out, less that at low",
        "improves",
        difference(orders[1], orders[0]),
        more_than(0),
        "paper",
        settings,
    )
    for copying, paper, allowed in (
        ("incremental", "grows with fan-out", more_than(1)),
        ("synchronous", "1; flat", _FLAT),
    ):
        low, high = _by_fanout(runs.of(copying=copying), 6)
        yield Claim(
            f"003-d-time-{copying}",
            f"{copying}: replication time for a subscription, highest fan-out for lowest",
            paper,
            ratio(_time_for_each(high), _time_for_each(low)),
            allowed,
            "paper",
            settings,
            "a broker looks through all its subscriptions, and those that nothing can match do not travel",
        )


def _by_fanout(runs: Runs, parts: int) -> tuple[Runs, Runs]:
    """Of each seed, the part of the runs with the lowest fan-out, and the part with the highest."""
    low: list[Row] = []
    high: list[Row] = []
    for each in runs.by_seed():
        rows = sorted(each.rows, key=lambda row: row["fanout"])
        few = max(1, len(rows) // parts)
        low += rows[:few]
        high += rows[-few:]
    return Runs(low), Runs(high)


def _time_for_each(runs: Runs) -> list[float]:
    """Replication time for each subscription that travels, by seed."""
    return [a / b for a, b in zip(_means(runs, "replication_s"), _means(runs, "matching"), strict=True)]


def _pending(runs: Runs) -> Iterator[Claim]:
    least, most = min(row["pending"] for row in runs.rows), max(row["pending"] for row in runs.rows)
    settings = _settings(runs, f"1,000 subscriptions, {least} to {most:,} pending")
    for id_, copying, metric, statement, paper, allowed in (
        ("delay", "incremental", "resumption_s", "delay of resumption", "1; not sensitive", _FLAT),
        ("time", "incremental", "replication_s", "replication time", "in proportion", about(most / least)),
        ("flat", "synchronous", "replication_s", "replication time", "1; unaffected", _FLAT),
    ):
        yield Claim(
            f"003-e-{id_}",
            f"{copying}: {most // least} times the pending publications change the {statement} by a factor of",
            paper,
            _ratio(runs, metric, {"copying": copying, "pending": most}, {"copying": copying, "pending": least}),
            allowed,
            "paper",
            settings,
            "the last of them are still being matched when the replica asks, which delays all",
        )


def _neighbours(runs: Runs) -> Iterator[Claim]:
    most = max(row["neighbours"] for row in runs.rows)
    for id_, each, metric, statement, paper, allowed in (
        ("fixed", 0, "resumption_s", "delay of resumption, 1,000 subscriptions in all", "1.44", about(1.44)),
        ("delay", 500, "resumption_s", "delay of resumption, 500 each", "barely 2", about(2)),
        ("time", 500, "replication_s", "replication time, 500 each", "5", about(5)),
        ("parallel", 0, "replication_s", "replication time, 1,000 in all", "substantially shorter", less_than(0.9)),
    ):
        yield Claim(
            f"003-f-{id_}",
            f"incremental: {most} times the neighbours change the {statement}, by a factor of",
            paper,
            _ratio(runs, metric, {"each": each, "neighbours": most}, {"each": each, "neighbours": 1}),
            allowed,
            "paper",
            _settings(runs, "100 pending"),
            "here neighbours look through their subscriptions at the same time; the replica does the rest",
        )


def _congestion(runs: Runs) -> Iterator[Claim]:
    worst = max(row["congested_us"] for row in runs.rows)
    found = runs.of(congested_us=worst)
    settings = _settings(runs, f"{worst / 1000:g} ms an event, 1.8 times what one broker can do")
    yield Claim(
        "003-g-throughput",
        "a replica multiplies throughput by",
        "2",
        _ratio(found, "throughput", {"alone": False, "use": _MS, "copying": "synchronous"}, {"alone": True}),
        about(2),
        "paper",
        settings,
        "no more than 1.8 times as much is published, and the first part before there is a replica",
    )
    for copying, paper, words in (("basic", 0.77, "0.77"), ("incremental", 0.49, "0.49, which no order can have")):
        yield Claim(
            f"003-g-order-{copying}",
            f"{copying} without re-ordering: degree of order",
            f"as low as {words}",
            _mean(found, "ordering", alone=False, use=_MS, copying=copying),
            about(paper),
            "paper",
            settings,
        )
    again = _lowest(found, "ordering", alone=False, use=_RO)
    yield Claim("003-g-reordered", "with re-ordering: degree of order", "1", again, _ORDERED, "paper", settings)
    yield Claim(
        "003-g-lmpt",
        "re-ordering changes the time to the last delivery by a factor of",
        "1.05",
        _ratio(found, "finished_s", {"alone": False, "use": _RO}, {"alone": False, "use": _MS}),
        Allowed(1, 1.1, strict=True),
        "paper",
        settings,
        "counted from the replica's start: the paper counts from the first event, which re-ordering delays too",
    )


def _messages(runs: Runs) -> Claim:
    """Two neighbours, one advertisement: to the replica and on, and each subscription the same way back."""
    rows = runs.of(copying="synchronous").rows
    sent = [(row["sent.Delta"] + row["sent.ReplicaRequest"]) / (2 + 2 * 1 + 2 * row["matching"]) for row in rows]
    return Claim(
        "003-messages",
        "messages sent for each of |N| + |N||A| + subscriptions times ways",
        "1, by the formula as we corrected it",
        extreme(max(sent, key=lambda each: abs(each - 1)), len(runs.by_seed())),
        Allowed(1, 1, judged="every"),
        "ours",
        _settings(runs, "synchronous, every size"),
    )


# Figures ---------------------------------------------------------------------------------------------------------

_MEASURES = (
    ("resumption_s", "delay of resumption (s)"),
    ("ordering", "degree of order"),
    ("replication_s", "replication time (s)"),
)


def _figures(runs: Mapping[str, Runs]) -> Iterator[LineChart]:
    for number, name, key, label in (
        (7, "population", "subscriptions", "subscriptions"),
        (8, "fanout", "fanout", "subscriptions that a publication matches"),
        (9, "pending", "pending", "pending publications"),
    ):
        for part, (metric, statement) in zip("abc", _MEASURES, strict=True):
            names = COPYING if name == "population" else COMPARED
            lines = tuple(_line(runs[name].of(copying=each), each, metric, key) for each in names)
            yield LineChart(f"Figure {number}({part}): {statement}, by {label} (paper 003)", label, statement, lines)
    for part, each, words in (("a", 0, "1,000 in all"), ("b", 500, "500 each")):
        lines = tuple(
            _line(runs["neighbours"].of(each=each), statement, metric, "neighbours")
            for metric, statement in (("resumption_s", "delay of resumption"), ("replication_s", "replication time"))
        )
        title = f"Figure 10({part}): incremental, subscriptions of {words} (paper 003)"
        yield LineChart(title, "neighbours with subscribers", "seconds", lines)
    for metric, statement in (("ordering", "degree of order"), ("throughput", "deliveries a second")):
        found = runs["congestion"]
        lines = tuple(
            _line(found.of(alone=False, use=use, copying=each), f"{each}, {use}", metric, "congested_us")
            for each in COPYING
            for use in (_MS, _RO)
        )
        lines = (*lines, _line(found.of(alone=True), "no replica", metric, "congested_us"))
        yield LineChart(
            f"Figure 11: {statement}, by congestion (paper 003)", "microseconds that an event takes", statement, lines
        )


def _line(runs: Runs, name: str, metric: str, key: str) -> Line:
    groups: dict[float, list[Row]] = {}
    for row in runs.rows:
        at = float(row[key]) if key != "fanout" else float(round(row[key], -1))
        groups.setdefault(at, []).append(row)
    return Line(name, tuple(spot(at, estimate([row[metric] for row in rows])) for at, rows in sorted(groups.items())))


def _measured(spark: "SparkSession", scale: Scale, out: Path, part: WatchParts) -> Mapping[str, Runs]:
    found = {}
    for name, cells in models(scale).items():
        with part(name) as watch:
            found[name] = Runs(measured(spark, cells, measure, out / "models" / f"{name}.parquet", watch))
    return found


def _cells(scale: Scale) -> Mapping[str, int]:
    return {name: len(cells) for name, cells in models(scale).items()}


STUDY = Study(
    "replication", "Replication on demand (paper 003)", lambda scale: {}, _claims, _figures, _measured, _cells
)
