"""Paper 003, replication on demand: its table, its five figures and what it says about them.

Service times are fitted once, to three numbers of figure 7 at 10,000 subscriptions (`Costs`); what those give there is
no evidence, and claims that rest on it say so. Everything else follows. The tenth protocol, "ordered", is ours.

Whether a claim holds follows from a few rules, the same for all rows, of shape and sign because its machines are
not ours: incremental resumes 30 to 65 % sooner; basic drops something; an order is below one, or is one; a factor lies
within two of the paper's and on its side of one; what is flat changes by no more than a tenth; what grows, grows.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.model.messages import ReplicaUse
from holdfast.pipeline.charts.lines import Line, LineChart
from holdfast_papers.claims import Claim, Estimate, estimate, spot
from holdfast_papers.models import measured
from holdfast_papers.replication.cells import COMPARED, COPYING, measure, models
from holdfast_papers.replication.table import PAPER
from holdfast_papers.study import Row, Runs, Scale, Study

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FITTED = "service times were fitted to this"
_RO, _MS = "reordering", "scheduling"
_ANY = float("inf")
_SOONER = 0.30, 0.65
_FLAT = 0.9, 1.1


def _is_like(factor: float, paper: float) -> bool:
    """Within a factor of two of the paper's, and on its side of one."""
    return max(paper / 2, 1) < factor <= 2 * paper if paper > 1 else paper / 2 <= factor < 1


def _mean(runs: Runs, metric: str, **settings: object) -> Estimate:
    return estimate(runs.of(**settings).column(metric))


def _ratio(runs: Runs, metric: str, above: Mapping[str, object], below: Mapping[str, object]) -> Estimate:
    """Of two settings, seed by seed."""
    pairs = zip(runs.of(**above).column(metric), runs.of(**below).column(metric), strict=True)
    return estimate([one / other for one, other in pairs])


def _less(runs: Runs, metric: str, less: Mapping[str, object], than: Mapping[str, object]) -> Estimate:
    ratio, interval = _ratio(runs, metric, less, than)
    return 1 - ratio, None if interval is None else (1 - interval[1], 1 - interval[0])


def _settings(runs: Runs, words: str) -> str:
    return f"{words}; seeds 1 to {max(row['seed'] for row in runs.rows)}"


def _claim(id_: str, statement: str, paper: str, found: Estimate, holds: bool, settings: str, note: str = "") -> Claim:
    return Claim(id_, statement, paper, found[0], holds, settings, found[1], note)


def _claims(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    yield from _table(runs["table"])
    yield from _population(runs["population"])
    yield from _fanout(runs["fanout"])
    yield from _pending(runs["pending"])
    yield from _neighbours(runs["neighbours"])
    yield from _congestion(runs["congestion"])
    yield from _messages(runs["population"])


# Table 1 ---------------------------------------------------------------------------------------------------------


def _table(runs: Runs) -> Iterator[Claim]:
    strength: dict[ReplicaUse, str] = {"failover": "weak", "scheduling": "strong", "reordering": "strong"}
    for use, strong in strength.items():
        for copying in COPYING:
            for at, promise in enumerate(("complete", "ordered")):
                rows = runs.of(copying=copying, use=use).rows
                broken = [row for row in rows if row[promise] is not None]
                in_paper = PAPER.get((copying, use))
                kept = not broken
                note = f"for example {broken[0][promise]} (seed {broken[0]['seed']})" if broken else ""
                wanted = in_paper[at] if in_paper is not None else not (use == _MS and promise == "ordered")
                paper = (
                    ("kept" if wanted else "broken")
                    if in_paper is not None
                    else f"ours; {'kept' if wanted else 'broken'}"
                )
                if (copying, use, promise) == ("incremental", _RO, "ordered"):
                    note = "the paper's text rules this protocol out, its table ticks it; marks make it true"
                statement = f"{copying}, {use}: share of runs with {strong} {promise} delivery"
                share = 1 - len(broken) / len(rows)
                settings = f"seeds 1 to {len(rows)}"
                yield Claim(
                    f"003-table-{copying}-{use}-{promise}",
                    statement,
                    paper,
                    share,
                    kept is wanted,
                    settings,
                    None,
                    note,
                )


# Figures 7 to 11 -------------------------------------------------------------------------------------------------


def _population(runs: Runs) -> Iterator[Claim]:
    most = max(row["subscriptions"] for row in runs.rows)
    least = min(row["subscriptions"] for row in runs.rows)
    settings = _settings(runs, f"{most:,} subscriptions, 100 pending")
    at = {copying: {"copying": copying, "subscriptions": most} for copying in COPYING}
    sooner = _less(runs, "resumption_s", at["incremental"], at["synchronous"])
    yield _claim(
        "003-a-sooner",
        "incremental resumes sooner than synchronous by",
        "0.47; 0.3 to 0.65 wanted",
        sooner,
        _SOONER[0] <= sooner[0] <= _SOONER[1],
        settings,
        _FITTED,
    )
    yield _claim("003-a-sooner-47", "the same, strictly", "at least 0.47", sooner, sooner[0] >= 0.47, settings, _FITTED)
    for copying in ("synchronous", "incremental"):
        grows = _ratio(runs, "resumption_s", at[copying], {"copying": copying, "subscriptions": least})
        times = most / least
        yield _claim(
            f"003-a-grows-{copying}",
            f"{copying}: {times:g} times the subscriptions delay resumption by a factor of",
            f"grows with them; {times:g} if in proportion",
            grows,
            grows[0] > 1,
            _settings(runs, f"{least:,} to {most:,} subscriptions"),
        )
    dropped = _mean(runs, "dropped", **at["basic"])
    yield _claim("003-a-drops", "basic drops a share of", "0.02; above 0 wanted", dropped, dropped[0] > 0, settings)
    basic = _ratio(runs, "resumption_s", at["basic"], at["incremental"])
    yield _claim(
        "003-a-basic",
        "basic resumes in so much of incremental's time",
        "slightly below 1",
        basic,
        basic[0] <= 1,
        settings,
    )
    for copying, paper, good in (
        ("synchronous", "1", (1, 1)),
        ("incremental", "about 0.8; below 1 wanted", (0, 1 - 1e-9)),
        ("ordered", "ours: 1", (1, 1)),
    ):
        order = _mean(runs, "ordering", **at[copying])  # type: ignore[index]
        yield _claim(
            f"003-b-{copying}", f"{copying}: ordering degree", paper, order, good[0] <= order[0] <= good[1], settings
        )
    shorter = _less(runs, "replication_s", at["synchronous"], at["incremental"])
    yield _claim(
        "003-c",
        "synchronous replicates sooner than incremental by",
        "0.31; above 0 wanted",
        shorter,
        shorter[0] > 0,
        settings,
        _FITTED,
    )
    ours = _ratio(runs, "resumption_s", at["ordered"], at["incremental"])
    yield _claim(
        "ours-ordered",
        "ordered resumes in so much of incremental's time",
        "ours: at most 1",
        ours,
        ours[0] <= 1,
        settings,
    )


def _fanout(runs: Runs) -> Iterator[Claim]:
    settings = _settings(runs, "1,000 subscriptions, 500 pending")
    sooner = _less(runs, "resumption_s", {"copying": "incremental"}, {"copying": "synchronous"})
    yield _claim(
        "003-d-sooner",
        "whatever the fan-out, incremental resumes sooner than synchronous by",
        "0.62; 0.3 to 0.65 wanted",
        sooner,
        _SOONER[0] <= sooner[0] <= _SOONER[1],
        settings,
    )
    rows = sorted(runs.of(copying="incremental").rows, key=lambda row: row["fanout"])
    low, high = rows[: len(rows) // 3], rows[-len(rows) // 3 :]
    yield _claim(
        "003-d-order-low", "incremental: degree of order at low fan-out", "0.6; below 1 wanted", _of(low, "ordering"),
        _of(low, "ordering")[0] < 1, settings,
    )  # fmt: skip
    yield _claim(
        "003-d-order-high", "incremental: degree of order at high fan-out", "rises towards 1", _of(high, "ordering"),
        _of(high, "ordering")[0] > _of(low, "ordering")[0], settings,
    )  # fmt: skip
    for copying, paper, good in (
        ("incremental", "grows with fan-out", (1 + 1e-9, _ANY)),
        ("synchronous", "1; flat", _FLAT),
    ):
        rows = sorted(runs.of(copying=copying).rows, key=lambda row: row["fanout"])
        least, most = _of(rows[:2], "replication_s")[0], _of(rows[-2:], "replication_s")[0]
        matching = rows[-1]["matching"] / rows[0]["matching"]
        ratio = most / least / matching  # for each subscription that travels
        yield _claim(
            f"003-d-time-{copying}",
            f"{copying}: replication time for a subscription, highest fan-out for lowest",
            paper,
            (ratio, None),
            good[0] <= ratio <= good[1],
            settings,
            "a broker looks through all its subscriptions, and those that nothing can match do not travel",
        )


def _of(rows: list[Row], metric: str) -> Estimate:
    return estimate([float(row[metric]) for row in rows])


def _pending(runs: Runs) -> Iterator[Claim]:
    least, most = min(row["pending"] for row in runs.rows), max(row["pending"] for row in runs.rows)
    settings = _settings(runs, f"1,000 subscriptions, {least} to {most:,} pending")
    for id_, copying, metric, statement, paper, good in (
        ("delay", "incremental", "resumption_s", "delay of resumption", "1; flat", _FLAT),
        ("time", "incremental", "replication_s", "replication time", "grows with them", (1 + 1e-9, _ANY)),
        ("flat", "synchronous", "replication_s", "replication time", "1; flat", _FLAT),
    ):
        found = _ratio(runs, metric, {"copying": copying, "pending": most}, {"copying": copying, "pending": least})
        words = f"{copying}: {most // least} times the pending publications change the {statement} by a factor of"
        holds = good[0] <= found[0] <= good[1]
        note = "" if holds else "the last of them are still being matched when the replica asks, which delays all"
        yield _claim(f"003-e-{id_}", words, paper, found, holds, settings, note)


def _neighbours(runs: Runs) -> Iterator[Claim]:
    most = max(row["neighbours"] for row in runs.rows)
    for id_, each, metric, statement, paper in (
        ("fixed", 0, "resumption_s", "delay of resumption, 1,000 subscriptions in all", 1.44),
        ("delay", 500, "resumption_s", "delay of resumption, 500 each", 2.0),
        ("time", 500, "replication_s", "replication time, 500 each", 5.0),
        ("parallel", 0, "replication_s", "replication time, 1,000 in all", None),
    ):
        found = _ratio(runs, metric, {"each": each, "neighbours": most}, {"each": each, "neighbours": 1})
        holds = None if paper is None else _is_like(found[0], paper)
        note = ""
        if holds is not None and abs(found[0] / (paper or 1) - 1) > 0.25:
            note = "here neighbours look through their subscriptions at the same time; the replica does the rest"
        words = f"incremental: {most} times the neighbours change the {statement}, by a factor of"
        in_paper = "" if paper is None else f"{paper:g}"
        yield Claim(f"003-f-{id_}", words, in_paper, found[0], holds, _settings(runs, "100 pending"), found[1], note)


def _congestion(runs: Runs) -> Iterator[Claim]:
    worst = max(row["congested_us"] for row in runs.rows)
    settings = _settings(runs, f"{worst / 1000:g} ms an event, 1.8 times what one broker can do")
    alone = {"alone": True, "congested_us": worst}
    with_one = {"alone": False, "congested_us": worst, "use": _MS, "copying": "synchronous"}
    faster = _ratio(runs, "throughput", with_one, alone)
    yield _claim(
        "003-g-throughput",
        "a replica multiplies throughput by",
        "2",
        faster,
        _is_like(faster[0], 2),
        settings,
        "no more than 1.8 times as much is published, and the first part before there is a replica",
    )
    for copying, paper in (("basic", "0.77"), ("incremental", "0.49, which no order can have")):
        order = _mean(runs, "ordering", alone=False, use=_MS, copying=copying, congested_us=worst)
        yield _claim(
            f"003-g-order-{copying}",
            f"{copying} without re-ordering: degree of order",
            paper,
            order,
            order[0] < 1,
            settings,
        )
    again = _mean(runs, "ordering", alone=False, use=_RO, congested_us=worst)
    yield _claim("003-g-reordered", "with re-ordering: degree of order", "1", again, again[0] == 1, settings)
    slower = _ratio(
        runs,
        "finished_s",
        {"alone": False, "use": _RO, "congested_us": worst},
        {"alone": False, "use": _MS, "congested_us": worst},
    )
    yield _claim(
        "003-g-lmpt",
        "re-ordering changes the time to the last delivery by a factor of",
        "1.05",
        slower,
        _is_like(slower[0], 1.05),
        settings,
        "counted from the replica's start: the paper counts from the first event, which re-ordering delays too",
    )


def _messages(runs: Runs) -> Iterator[Claim]:
    """Two neighbours, one advertisement: to the replica and on, and each subscription the same way back."""
    rows = runs.of(copying="synchronous").rows
    sent = [(row["sent.Tell"] + row["sent.ReplicaRequest"]) / (2 + 2 * 1 + 2 * row["matching"]) for row in rows]
    yield _claim(
        "003-messages",
        "messages sent for each of |N| + |N||A| + subscriptions times ways",
        "1, by the corrected formula",
        estimate(sent),
        all(each == 1 for each in sent),
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
    return Line(name, tuple(spot(at, _of(rows, metric)) for at, rows in sorted(groups.items())))


def _measured(spark: "SparkSession", scale: Scale, out: Path) -> Mapping[str, Runs]:
    folder = out / "models"
    cells = models(scale)
    return {name: Runs(measured(spark, each, measure, folder / f"{name}.parquet")) for name, each in cells.items()}


STUDY = Study(
    "replication", "Replication on demand (paper 003)", lambda scale: {}, _claims, _figures, measured=_measured
)
