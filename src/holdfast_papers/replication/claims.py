"""What paper 003 says, row by row: its table, its figures 7 to 11 and the text around them.

Its machines are not ours, so seconds are not compared, but shares and factors are: within a tenth of the paper's. What
it calls flat changes by no more than a tenth, and what improves "substantially" improves by more.
"""

from collections.abc import Iterator, Mapping
from statistics import fmean, stdev

from holdfast.model.replication_messages import ReplicaUse
from holdfast_papers.claims import Claim, Origin, untested
from holdfast_papers.estimates import Estimate, difference, estimate, extreme, ratio
from holdfast_papers.replication.cells import COPYING
from holdfast_papers.replication.relief_claims import relief_claims
from holdfast_papers.replication.table import PAPER
from holdfast_papers.study import Row, Runs
from holdfast_papers.verdicts import Allowed, about, at_least, at_most, less_than, more_than

_FITTED = "service times were fitted to this"
_RO, _MS = "reordering", "scheduling"
_FLAT = about(1)
_ORDERED = at_least(1, "every")
_GROWS = more_than(1.1)  # by more than what counts as flat


def claims(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    yield from _written(runs["written"])
    yield from _mended(runs["table"])
    yield from _population(runs["population"])
    yield from _population_order(runs["population"])
    yield from _fanout(runs["fanout"])
    yield from _fanout_order(runs["fanout"])
    yield from _pending(runs["pending"])
    yield from _neighbours(runs["neighbours"])
    yield from _ordered(runs["population"], runs["neighbours"])
    yield from _congestion(runs["congestion"])
    yield from _messages(runs["population"], runs["neighbours"])
    yield from relief_claims(runs["relief"])
    yield from _not_built()


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


# Table 1 ---------------------------------------------------------------------------------------------------------


_STRENGTH: dict[ReplicaUse, str] = {"failover": "weak", "scheduling": "strong", "reordering": "strong"}


def _written(runs: Runs) -> Iterator[Claim]:
    """The printed algorithms: a tick needs that no run breaks the promise, a cross that one does."""
    for (copying, use), in_paper in PAPER.items():
        for reading in sorted({row["reading"] for row in runs.of(copying=copying, use=use).rows}):
            for promise, wanted in zip(("complete", "ordered"), in_paper, strict=True):
                found = runs.of(copying=copying, use=use, reading=reading)
                name = f"{use}-{reading}" if use == _RO else use
                yield _promise(
                    f"003-table-{copying}-{name}-{promise}",
                    f"{copying}, {use}{f' by its {reading}' if use == _RO else ''}, as written",
                    found,
                    promise,
                    wanted,
                    "paper",
                )
    copies = runs.of(copying="incremental").column("copies")
    yield Claim(
        "003-duplicates",
        "incremental as written: copies of an event that a subscriber gets, the most of all runs",
        "1: avoids duplicates",
        extreme(max(copies), len(runs.by_seed())),
        at_most(1, "every"),
        "paper",
        f"seeds 1 to {len(runs.by_seed())}",
        "lines 12 to 14 of algorithm 5 do not ask whether a neighbour has it already",
    )


def _mended(runs: Runs) -> Iterator[Claim]:
    """What the product runs."""
    for use in _STRENGTH:
        for copying in COPYING:
            for at, promise in enumerate(("complete", "ordered")):
                in_paper = PAPER.get((copying, use))
                wanted = in_paper[at] if in_paper is not None else not (use == _MS and promise == "ordered")
                found = runs.of(copying=copying, use=use)
                id_ = f"003-mended-{copying}-{use}-{promise}"
                yield _promise(id_, f"{copying}, {use}, as mended", found, promise, wanted, "ours")


def _promise(id_: str, words: str, runs: Runs, promise: str, wanted: bool, origin: Origin) -> Claim:
    rows = runs.rows
    broken = [row for row in rows if row[promise] is not None]
    asked = "kept" if wanted else "broken"
    return Claim(
        id_,
        f"{words}: share of runs with {_STRENGTH[rows[0]['use']]} {promise} delivery",
        asked if origin == "paper" else f"{asked} is wanted",
        extreme(1 - len(broken) / len(rows), len(rows)),
        at_least(1, "every") if wanted else less_than(1, "one"),
        origin,
        f"seeds 1 to {len(rows)}",
        f"for example {broken[0][promise]} (seed {broken[0]['seed']})" if broken else "",
    )


# Figures 7 to 11 -------------------------------------------------------------------------------------------------


def _sizes(runs: Runs) -> tuple[int, int]:
    found = [row["subscriptions"] for row in runs.rows]
    return min(found), max(found)


def _population(runs: Runs) -> Iterator[Claim]:
    least, most = _sizes(runs)
    times = most / least
    settings = _settings(runs, f"{most:,} subscriptions, 100 pending")
    every = _settings(runs, f"{least:,} to {most:,} subscriptions, 100 pending")
    few, many = (
        {str(copying): {"copying": copying, "subscriptions": count} for copying in COPYING} for count in (least, most)
    )
    for copying, seconds in (("synchronous", 13.8), ("incremental", 7.3)):
        words = f"{copying}: delay of resumption, in seconds"
        found = _mean(runs, "resumption_s", **many[copying])
        yield Claim(f"003-a-{copying}", words, f"{seconds}", found, about(seconds), "fitted", settings, _FITTED)
    sooner = _less(runs, "resumption_s", many["incremental"], many["synchronous"])
    words = "incremental resumes sooner than synchronous by"
    yield Claim("003-a-sooner", words, "0.47", sooner, about(0.47), "fitted", settings, _FITTED)
    for copying, paper, allowed in (
        ("synchronous", "in proportion", about(times)),
        ("incremental", "less than in proportion", Allowed(1, times, strict=True)),
    ):
        words = f"{copying}: {times:g} times the subscriptions delay resumption by a factor of"
        note = "connecting takes a second, however many there are; the fit to figure 10 asks for it"
        grows = _ratio(runs, "resumption_s", many[copying], few[copying])
        yield Claim(f"003-a-grows-{copying}", words, paper, grows, allowed, "paper", every, note)
    gaps = [
        [
            slow - quick
            for slow, quick in zip(
                *(_means(runs.of(**at[copying]), "resumption_s") for copying in ("synchronous", "incremental")),
                strict=True,
            )
        ]
        for at in (many, few)
    ]
    words = "seconds by which incremental is ahead, with most subscriptions less with fewest"
    yield Claim("003-a-widens", words, "widens", difference(*gaps), more_than(0), "paper", every)
    dropped = _mean(runs, "dropped", **many["basic"])
    yield Claim("003-a-drops", "basic drops a share of", "0.02", dropped, about(0.02), "paper", settings)
    yield Claim(
        "003-a-basic",
        "basic resumes in so much of incremental's time",
        "slightly less",
        _ratio(runs, "resumption_s", many["basic"], many["incremental"]),
        Allowed(0.9, 1, strict=True),
        "paper",
        settings,
        "here both wait for the first subscriptions, and incremental's bookkeeping delays nobody",
    )
    shorter = _less(runs, "replication_s", many["synchronous"], many["incremental"])
    words = "synchronous replicates sooner than incremental by"
    note = f"{_FITTED}, but figure 10's factor of 5 leaves no room for it"
    yield Claim("003-c", words, "0.31", shorter, about(0.31), "fitted", settings, note)
    for copying in ("synchronous", "incremental"):
        words = f"{copying}: {times:g} times the subscriptions change the replication time by a factor of"
        grows = _ratio(runs, "replication_s", many[copying], few[copying])
        yield Claim(f"003-c-grows-{copying}", words, "increases", grows, _GROWS, "paper", every)


def _population_order(runs: Runs) -> Iterator[Claim]:
    least, most = _sizes(runs)
    settings = _settings(runs, f"{most:,} subscriptions, 100 pending")
    found = _lowest(runs, "ordering", copying="synchronous")
    yield Claim("003-b-synchronous", "synchronous: ordering degree", "1", found, _ORDERED, "paper", settings)
    found = _mean(runs, "ordering", copying="incremental", subscriptions=most)
    yield Claim("003-b-incremental", "incremental: ordering degree", "about 0.8", found, about(0.8), "paper", settings)
    words = "incremental: ordering degree with most subscriptions for that with fewest"
    found = _ratio(
        runs,
        "ordering",
        {"copying": "incremental", "subscriptions": most},
        {"copying": "incremental", "subscriptions": least},
    )
    every = _settings(runs, f"{least:,} to {most:,} subscriptions, 100 pending")
    yield Claim("003-b-flat", words, "1; not sensitive", found, _FLAT, "paper", every)


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
    for copying in ("synchronous", "incremental"):
        low, high = _by_fanout(runs.of(copying=copying), 4)
        words = f"{copying}: delay of resumption, highest fan-out for lowest"
        found = ratio(_means(high, "resumption_s"), _means(low, "resumption_s"))
        yield Claim(f"003-d-delay-{copying}", words, "1; not sensitive", found, _FLAT, "paper", settings)
    for copying, paper, allowed in (
        ("incremental", "grows with fan-out", _GROWS),
        ("synchronous", "1; flat", _FLAT),
    ):
        low, high = _by_fanout(runs.of(copying=copying), 4)
        yield Claim(
            f"003-d-time-{copying}",
            f"{copying}: replication time for a subscription, highest fan-out for lowest",
            paper,
            ratio(_time_for_each(high), _time_for_each(low)),
            allowed,
            "paper",
            settings,
            "for each subscription that travels: those that nothing can match do not",
        )


def _fanout_order(runs: Runs) -> Iterator[Claim]:
    settings = _settings(runs, "1,000 subscriptions, 500 pending")
    found = _lowest(runs, "ordering", copying="synchronous")
    yield Claim("003-d-order", "synchronous: degree of order", "1", found, _ORDERED, "paper", settings)
    low, high = _by_fanout(runs.of(copying="incremental"), 4)
    text = "incremental: degree of order at"
    orders = [_means(each, "ordering") for each in (low, high)]
    for id_, words, paper, found, allowed in (
        ("low", "low fan-out", "as low as about 0.6", estimate(orders[0]), about(0.6)),
        ("high", "high fan-out", "approaches 1", estimate(orders[1]), at_least(0.98)),
        ("rises", "high fan-out, less that at low", "improves", difference(orders[1], orders[0]), more_than(0)),
    ):
        yield Claim(f"003-d-order-{id_}", f"{text} {words}", paper, found, allowed, "paper", settings)
    spread = extreme(stdev(orders[1]) / max(stdev(orders[0]), 1e-9), len(orders[0]))
    words = "incremental: how much the degree of order differs between runs, at high fan-out for low"
    yield Claim("003-d-stable", words, "more stable", spread, less_than(1, "every"), "paper", settings)


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
    sooner = _less(runs, "resumption_s", {"copying": "incremental"}, {"copying": "synchronous"})
    words = "incremental resumes sooner than synchronous by"
    yield Claim("003-e-sooner", words, "outperforms", sooner, more_than(0), "paper", settings)
    order = _mean(runs, "ordering", copying="incremental")
    yield Claim("003-e-order", "incremental: degree of order", "about 0.8", order, about(0.8), "paper", settings)
    note = "the last of them are still being matched when the replica asks, which delays all"
    for id_, copying, metric, statement, paper, allowed in (
        ("delay", "incremental", "resumption_s", "delay of resumption", "1; not sensitive", _FLAT),
        ("delay-synchronous", "synchronous", "resumption_s", "delay of resumption", "1; not sensitive", _FLAT),
        ("order-flat", "incremental", "ordering", "degree of order", "1; not sensitive", _FLAT),
        ("time", "incremental", "replication_s", "replication time", "in proportion", about(most / least)),
        ("flat", "synchronous", "replication_s", "replication time", "1; unaffected", _FLAT),
    ):
        words = f"{copying}: {most // least} times the pending publications change the {statement} by a factor of"
        found = _ratio(runs, metric, {"copying": copying, "pending": most}, {"copying": copying, "pending": least})
        if id_ == "time":
            note = "the fit leaves next to nothing for bookkeeping, because figure 10 has no room for it"
        yield Claim(f"003-e-{id_}", words, paper, found, allowed, "paper", settings, note)


def _neighbours(runs: Runs) -> Iterator[Claim]:
    most = max(row["neighbours"] for row in runs.rows)
    mine = runs.of(copying="incremental")
    origin: Origin
    for id_, each, metric, statement, paper, allowed, origin in (
        ("fixed", 0, "resumption_s", "delay of resumption, 1,000 subscriptions in all", "1.44", about(1.44), "fitted"),
        ("delay", 500, "resumption_s", "delay of resumption, 500 each", "barely 2", about(2), "fitted"),
        ("time", 500, "replication_s", "replication time, 500 each", "5", about(5), "fitted"),
        (
            "parallel",
            0,
            "replication_s",
            "replication time, 1,000 in all",
            "substantially less",
            less_than(0.9),
            "paper",
        ),
    ):
        yield Claim(
            f"003-f-{id_}",
            f"incremental: {most} times the neighbours change the {statement}, by a factor of",
            paper,
            _ratio(mine, metric, {"each": each, "neighbours": most}, {"each": each, "neighbours": 1}),
            allowed,
            origin,
            _settings(runs, "100 pending"),
            _FITTED if origin == "fitted" else "",
        )


def _ordered(population: Runs, neighbours: Runs) -> Iterator[Claim]:
    """Ours, with one neighbour and with many."""
    _, most = _sizes(population)
    lowest = min(_lowest(each, "ordering", copying="ordered").value for each in (population, neighbours))
    one = _settings(population, f"{most:,} subscriptions of one neighbour, 100 pending")
    runs = len(population.by_seed())
    yield Claim(
        "003-b-ordered", "ordered: ordering degree", "1 is wanted", extreme(lowest, runs), _ORDERED, "ours",
        f"{one}; and with many neighbours",
    )  # fmt: skip
    many = max(row["neighbours"] for row in neighbours.rows)
    for name, found, at, settings in (
        ("", population, {"subscriptions": most}, one),
        ("-fixed", neighbours, {"each": 0, "neighbours": many}, _settings(neighbours, f"1,000 of {many} neighbours")),
        ("-each", neighbours, {"each": 500, "neighbours": many}, _settings(neighbours, f"500 of each of {many}")),
    ):
        mine = {"copying": "ordered", **at}
        other = {"copying": "incremental", **at}
        for metric, words in (("resumption_s", "resumes"), ("replication_s", "replicates"), ("messages", "sends")):
            what = "so many of incremental's messages" if metric == "messages" else "in so much of incremental's time"
            yield Claim(
                f"ours-ordered-{metric.removesuffix('_s')}{name}",
                f"ordered {words} {what}",
                "at most 1 is wanted",
                _ratio(found, metric, mine, other),
                at_most(1),
                "ours",
                settings,
            )


def _congestion(runs: Runs) -> Iterator[Claim]:
    worst = max(row["congested_us"] for row in runs.rows)
    most = max(row["more"] for row in runs.rows)
    found = runs.of(congested_us=worst)
    loaded = f"{worst / 1000:g} ms an event, 2.5 times what one broker can do, 500 waiting"
    for copying in COPYING:
        yield Claim(
            f"003-g-throughput-{copying}",
            f"{copying}: a replica multiplies throughput by",
            "2",
            _ratio(found.of(more=most), "throughput", {"alone": False, "copying": copying}, {"alone": True}),
            about(2),
            "ours" if copying == "ordered" else "paper",
            _settings(runs, f"{loaded}, {most:,} more published"),
        )
    backlog = found.of(alone=False, more=min(row["more"] for row in runs.rows))
    settings = _settings(runs, f"{loaded}, as many more published")
    for copying, paper, words in (("basic", 0.77, "0.77"), ("incremental", 0.49, "0.49, which no order can have")):
        yield Claim(
            f"003-g-order-{copying}",
            f"{copying} without re-ordering: degree of order",
            f"as low as {words}",
            _mean(backlog, "ordering", use=_MS, copying=copying),
            about(paper),
            "paper",
            settings,
        )
    again = _lowest(backlog, "ordering", use=_RO)
    yield Claim("003-g-reordered", "with re-ordering: degree of order", "1", again, _ORDERED, "paper", settings)
    yield Claim(
        "003-g-lmpt",
        "re-ordering changes the time from the first event by the replica to the last, by a factor of",
        "1.05",
        _ratio(backlog, "last_s", {"use": _RO}, {"use": _MS}),
        Allowed(1, 1.1, strict=True),
        "paper",
        settings,
        "both counted when clients get them; re-ordering holds the first back until the last is near",
    )
    yield Claim(
        "003-g-lmpt-arrived",
        "the same, counted from when the first event reaches the broker that re-orders, which both have alike",
        "1.05",
        ratio(_since_arrival(backlog, _RO), _since_arrival(backlog, _MS)),
        Allowed(1, 1.1, strict=True),
        "paper",
        settings,
    )


def _since_arrival(runs: Runs, use: str) -> list[float]:
    """By seed, the mean over protocols: without re-ordering the first event is delivered as soon as it is there."""
    firsts = [a - b for a, b in zip(*(_means(runs.of(use=_MS), key) for key in ("finished_s", "last_s")), strict=True)]
    return [end - first for end, first in zip(_means(runs.of(use=use), "finished_s"), firsts, strict=True)]


def _messages(population: Runs, neighbours: Runs) -> Iterator[Claim]:
    """Two neighbours, one advertisement: to the replica and on, and each subscription the same way back."""
    rows = population.of(copying="synchronous").rows
    sent = [(row["sent.Delta"] + row["sent.ReplicaRequest"]) / (2 + 2 * 1 + 2 * row["matching"]) for row in rows]
    yield Claim(
        "003-messages",
        "messages sent for each of |N| + |N||A| + subscriptions times ways",
        "1, by the formula as we corrected it",
        extreme(max(sent, key=lambda each: abs(each - 1)), len(population.by_seed())),
        Allowed(1, 1, judged="every"),
        "ours",
        _settings(population, "synchronous, every size"),
    )
    most = max(row["neighbours"] for row in neighbours.rows)
    mine = neighbours.of(copying="incremental", each=500)
    per_unit = [
        [_control(each) / (1 + count + 1 + 500 * count) for each in mine.of(neighbours=count).by_seed()]
        for count in (most, 1)
    ]
    yield Claim(
        "003-complexity",
        f"messages for each of |N| + |A| + |S|, with {most} neighbours for one",
        "1; linear",
        ratio(*per_unit),
        about(1),
        "paper",
        _settings(neighbours, "incremental, one advertisement, 500 subscriptions each"),
        "with many advertisements it is |N||A|: each goes on to all other neighbours",
    )


def _control(runs: Runs) -> float:
    """Messages of one run, but for those that carry events."""
    events = ("sent.Publish", "sent.Deliver", "sent.Batch", "sent.DeliverControl")
    return runs.total("messages") - sum(runs.total(each) for each in events)


def _not_built() -> Iterator[Claim]:
    for id_, words, paper, why in (
        (
            "overhead",
            "messages that replication adds while nothing fails",
            "zero, but for topology information",
            "not zero here: heartbeats list the neighbours of a broker, so that no directory service is needed; with "
            "a limit for relief each neighbour is also sent an echo",
        ),
        (
            "inconsistent",
            "events that may be delivered inconsistently",
            "at least the rate times the time to detection",
            "this model detects at once; a live test kills a broker and counts "
            "(tests/pipeline/test_audit_replication.py)",
        ),
        (
            "sla",
            "replication triggered by a violated service level agreement",
            "",
            "built as a limit for the delay; the paper states no agreement, delay or time to react",
        ),
        ("borrow", "a broker borrowed from another domain", "", "not built: the provisioner starts a new one"),
        ("composite", "composite subscriptions", "", "not built: the language has none"),
        ("memory", "entries of the wait-ready queues", "in proportion to fan-out times pending", "not counted here"),
    ):
        yield untested(f"003-{id_}", words, paper, why)
