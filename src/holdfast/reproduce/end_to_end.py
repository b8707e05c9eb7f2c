"""Paper 000, end-to-end recovery: its scheme beside ours, in its two networks.

The paper's own scheme is `scheme = "srm"` with the settings of its experiments; "publisher repairs" adds a cache at the
publisher, which the paper leaves out. Ours is the default. All see the same publications and the same losses of
events; payloads are 500 bytes, which the paper does not say.

With 46 brokers our workload's popular events carry up to a hundred attributes, not the paper's ten, and would fill its
filters, so that nearly everybody asked for them: there the filters have 2,048 bits, and their bytes are not compared.
Ours is run for longer as well, beside best effort alone, until 99.99 % means something.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import sqrt

from holdfast.pipeline.line_charts import Line, LineChart, Spot
from holdfast.pipeline.sweep_check import VARIANT, plan
from holdfast.pipeline.sweep_plan import Plan, preset_document
from holdfast.planner.records import detection_probability
from holdfast.protocol.recovery.srm import counts as c
from holdfast.reproduce.claims import Claim, Estimate, estimate, ratio_of_sums, shown, spot
from holdfast.reproduce.study import Row, Runs, Scale, Study

BEST_EFFORT, PAPER, WITH_CACHE, OURS = "best effort", "R = 10", "R = 10, publisher repairs", "ours"
_SRM = {"reliability.recovery": "end-to-end", "reliability.scheme": "srm"}
_VARIANTS: dict[str, dict[str, object]] = {
    BEST_EFFORT: {"reliability.recovery": "none"},
    "R = 1": {**_SRM, "reliability.record": 1},
    "R = 5": {**_SRM, "reliability.record": 5},
    PAPER: {**_SRM, "reliability.record": 10},
    WITH_CACHE: {**_SRM, "reliability.record": 10, "reliability.publisher_cache": True},
    OURS: {"reliability.recovery": "end-to-end"},
}
_SMALL, _LARGE = 12, 46
_FILTER_BITS = {_SMALL: 256, _LARGE: 2_048}
_LONG, _ROUGH = "-long", "-rough"
_NETWORKS = {_SMALL: "wan-12", _LARGE: "wan-46"}
_SECONDS: dict[Scale, dict[int, float]] = {"quick": {12: 30.0, 46: 20.0}, "paper": {12: 300.0, 46: 300.0}}
_LONG_S: dict[Scale, dict[int, float]] = {"quick": {12: 220.0, 46: 75.0}, "paper": {12: 300.0, 46: 300.0}}
_SEEDS: dict[Scale, int] = {"quick": 2, "paper": 5}
_PAYLOAD = {"workload.payload_bytes": 500}
_LOSSES_MIN = 30_000  # that must be seen before 99.99 % means something
_SLICE_S: dict[Scale, float] = {"quick": 2.0, "paper": 10.0}
_GROWING_S = (2.0, 4.0, 8.0, 16.0, 30.0)  # the same run, stopped after so long: how caches grow
_DIGEST_S = (0.1, 0.2, 0.4, 1.0)
_GRID = {"match": (0.1, 0.3), "loss": (0.05, 0.2), "record": (1, 5, 10)}  # of Eq. 1


def _plans(scale: Scale) -> Mapping[str, Plan]:
    seeds = _SEEDS[scale]
    plans: dict[str, Plan] = {}
    for size, preset in _NETWORKS.items():
        network = preset_document(preset)
        fixed = {**_PAYLOAD, "duration_s": _SECONDS[scale][size], "reliability.filter_bits": _FILTER_BITS[size]}
        fixed["slices_s"] = _SLICE_S[scale]
        plans[preset] = plan(network, variants=_VARIANTS, seeds=seeds, settings=fixed)
        both = {name: _VARIANTS[name] for name in (BEST_EFFORT, OURS)}
        for name, loss, share in ((_LONG, 0.01, 1.0), (_ROUGH, 0.05, 0.2)):  # so that both see as many losses
            fixed = {**_PAYLOAD, "duration_s": share * _LONG_S[scale][size], "links.loss": loss}
            plans[preset + name] = plan(network, variants=both, seeds=seeds, settings=fixed)
    calm = {name: _VARIANTS[name] for name in (BEST_EFFORT, PAPER)}
    fixed = {"duration_s": _SECONDS[scale][_LARGE], "links.loss": 0.001}
    fixed["reliability.filter_bits"] = _FILTER_BITS[_LARGE]
    plans["wan-46-calm"] = plan(preset_document("wan-46"), variants=calm, seeds=seeds, settings=fixed)
    plans["caches"] = plan(
        preset_document("wan-12"),
        {"duration_s": list(_GROWING_S)},
        seeds=seeds,
        settings={**_PAYLOAD, **_VARIANTS[PAPER]},
    )
    plans["digests"] = plan(
        preset_document("wan-12"),
        {"reliability.digest_s": list(_DIGEST_S)},
        seeds=seeds,
        settings={**_PAYLOAD, **_VARIANTS[OURS], "duration_s": _SECONDS[scale][12]},
    )
    plans["detection"] = _detection(100.0 if scale == "quick" else 1_000.0)
    return plans


def _detection(seconds: float) -> Plan:
    """One publisher, one subscriber and one lossy link, without anybody who could repair: only detection counts."""
    network = {
        "topology": {"kind": "line", "brokers": 2},
        "links": {"delay_ms": 10, "loss": 0.1, "lossy_control": False},
        "clients": {"per_broker": 1, "publishers": 1, "subscribers": "others"},
        "workload": {"kind": "rates", "rates_per_s": [500, 500], "match": [0.1, 0.1]},
        # Wide filters, or false alarms would be counted among the losses.
        "reliability": {**{key.partition(".")[2]: value for key, value in _SRM.items()}, "filter_bits": 2_048},
    }
    variants = {
        f"{match} {loss} {record}": {
            "workload.match": [match, match],
            "links.loss": loss,
            "reliability.record": record,
        }
        for match in _GRID["match"]
        for loss in _GRID["loss"]
        for record in _GRID["record"]
    }
    return plan(network, variants=variants, seeds=1, settings={"duration_s": seconds})


# Claims ----------------------------------------------------------------------------------------------------------


def _claims(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    yield from _factors(runs)
    for size, (requests, repairs) in {_SMALL: (0.9, 0.8), _LARGE: (0.8, 0.7)}.items():
        yield from _without_duplicates(runs[_NETWORKS[size]], size, requests, repairs)
    for size, most_s in {_SMALL: 0.2, _LARGE: 0.35}.items():
        yield _answers(runs[_NETWORKS[size]], size, most_s)
    yield from _others(runs)
    yield _eq_1(runs["detection"])
    for size, overhead in {12: 0.15, 46: 0.35}.items():
        yield from _ours(runs, size, overhead)


def _settings(network: str, runs: Runs) -> str:
    row = runs.rows[0]
    seeds = len({each["seed"] for each in runs.rows})
    return f"{network}, {row['duration_s']:g} s, seeds 1 to {seeds}"


def _factors(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    for id_, network, paper, least in (
        ("000-a", "wan-12", "about 2", 2.0),
        ("000-b", "wan-46", "about 3", 3.0),
        ("000-c", "wan-46-calm", "more than 8", 8.0),
    ):
        found = runs[network]
        before, after = found.of(variant=BEST_EFFORT), found.of(variant=PAPER)
        factor, interval = ratio_of_sums(before.column("lost"), after.column("lost"))
        loss = " at loss 0.001" if network.endswith("calm") else ""
        note = ""
        if factor < least:
            cached = found.of(variant=WITH_CACHE)
            note = (
                f"with a publisher that repairs too: {shown(before.total('lost') / cached.total('lost'))}"
                if cached.rows and cached.total("lost")
                else "few losses were seen"
            )
        yield Claim(
            id_,
            f"R = 10 divides lost deliveries by{loss}",
            paper,
            factor,
            factor >= least,
            _settings(network, after),
            interval,
            note,
        )
    found = runs["wan-46"]
    share, interval = ratio_of_sums(
        found.of(variant=PAPER).column("recovered.repair"), found.of(variant=BEST_EFFORT).column("lost")
    )
    yield Claim(
        "000-recovered",
        "share of the losses that is recovered in the unstable network",
        "over 0.7",
        share,
        share > 0.7,
        _settings("wan-46", found),
        interval,
    )


def _without_duplicates(found: Runs, size: int, requests: float, repairs: float) -> Iterator[Claim]:
    paper = found.of(variant=PAPER)
    for what, all_, twice, least in (
        ("requests", c.ASKED_FIRST, c.ASKED_TWICE, requests),
        ("repairs", c.REPAIRED, c.REPAIRED_TWICE, repairs),
    ):
        many, interval = ratio_of_sums(paper.column(f"recovery.{twice}"), paper.column(f"recovery.{all_}"))
        single = 1 - many
        yield Claim(
            f"000-f-{what}-{size}",
            f"share of the {what} that no other repeats, {size} brokers",
            f"over {least:g}",
            single,
            single > least,
            _settings(_NETWORKS[size], paper),
            None if interval is None else (1 - interval[1], 1 - interval[0]),
        )


def _answers(found: Runs, size: int, most_s: float) -> Claim:
    paper = found.of(variant=PAPER)
    seconds, interval = estimate([each / 1e6 for each in paper.column("answer_us.p80")])
    late, _ = _recovery_s(paper, "p50")
    return Claim(
        f"000-d-{size}",
        f"seconds from the first request to the repair, 80th percentile, {size} brokers",
        f"below {most_s:g}",
        seconds,
        seconds < most_s,
        _settings(_NETWORKS[size], paper),
        interval,
        f"from publishing to the recovered delivery the median is {late:.2f} s: most is spent on noticing (000-e)",
    )


def _others(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    for size, network in _NETWORKS.items():
        paper = runs[network].of(variant=PAPER)
        ratio, interval = ratio_of_sums(paper.column(f"recovery.{c.ASKED}"), paper.column(f"recovery.{c.REPAIRED}"))
        settings = _settings(network, paper)
        claim = f"requests for each repair, {size} brokers"
        yield Claim(f"000-g-{size}", claim, "more than 1", ratio, ratio > 1, settings, interval)
        hits, interval = ratio_of_sums(paper.column(f"recovery.{c.ANSWERED}"), paper.column(f"recovery.{c.WANTED}"))
        claim = f"share of the requested events that somebody repairs, {size} brokers"
        yield Claim(f"000-j-{size}", claim, "climbs within seconds; no value", hits, None, settings, interval)
        length, interval = _cached(paper)
        claim = f"events of one publisher in a subscriber's cache, {size} brokers"
        yield Claim(f"000-k-{size}", claim, "mean near 5, at most 300", length, length <= 25, settings, interval)
        before, after = (runs[network].of(variant=name).column("delay_us.p50") for name in (BEST_EFFORT, PAPER))
        more, interval = estimate([(b - a) / 1_000 for a, b in zip(before, after, strict=True)])
        claim = f"ms that recovery adds to the median delivery delay, {size} brokers"
        note = "ours counts late deliveries; the paper's 25 ms are its brokers' work on longer messages"
        yield Claim(f"000-h-{size}", claim, "about 25", more, more <= 25, settings, interval, note)
    found = runs["wan-12"]
    each = [
        _mean_bytes(found.of(variant=PAPER), seed) - _mean_bytes(found.of(variant=BEST_EFFORT), seed)
        for seed in range(len(found.of(variant=PAPER).rows))
    ]
    more, interval = estimate(each)
    yield Claim(
        "000-i",
        "bytes that the record adds to an event",
        "320",
        more,
        320 <= more <= 360,
        _settings("wan-12", found),
        interval,
        "ten filters of 32 bytes; the rest are the times of departure, which order needs, and a head",
    )


def _mean_bytes(runs: Runs, seed: int) -> float:
    return runs.column("messages.Publish.bytes")[seed] / runs.column("messages.Publish.sent")[seed]


def _detected(row: Row) -> tuple[float, float, int, float]:
    """A point of the grid: match probability, loss, R, and the share of the losses that was detected."""
    match, loss, record = str(row[VARIANT]).split()
    detected = (row.get(f"recovery.{c.DETECTED}") or 0) - (row.get(f"recovery.{c.CAME_LATE}") or 0)
    return float(match), float(loss), int(record), detected / row["lost"]


def _standard_error(share: float, row: Row) -> float:
    return sqrt(max(0.0, share * (1 - share)) / row["lost"])  # false alarms may bring a share above 1


def _eq_1(runs: Runs) -> Claim:
    """The largest deviation from the formula over the grid, in standard errors."""
    worst, where = 0.0, ""
    for row in runs.rows:
        match, loss, record, share = _detected(row)
        expected = detection_probability(match, loss, record)
        error = abs(share - expected) / _standard_error(expected, row)
        if error > worst:
            found = f"{share:.4f}, not {expected:.4f}"
            worst, where = error, f"match {match:g}, loss {loss:g}, R = {record}: {found}"
    return Claim(
        "000-eq1",
        "probability to detect a loss: largest distance from Eq. 1, in standard errors",
        "at most 3",
        worst,
        worst <= 3,
        f"{len(runs.rows)} points, 500 events/s for {runs.rows[0]['duration_s']:g} s",
        None,
        where,
    )


def _ours(runs: Mapping[str, Runs], size: int, overhead: float) -> Iterator[Claim]:
    network = _NETWORKS[size]
    for name, least in ((network + _LONG, 0.9999), (network + _ROUGH, 0.999)):
        before, after = runs[name].of(variant=BEST_EFFORT), runs[name].of(variant=OURS)
        share, interval = ratio_of_sums(after.column("delivered"), after.column("owed"))
        seen = int(before.total("lost"))
        loss = "0.05" if name.endswith(_ROUGH) else "0.01"
        note = f"{seen:,} losses were seen" + ("" if seen >= _LOSSES_MIN else ", too few to prove it")
        yield Claim(
            f"ours-delivered-{size}-{loss}",
            f"ours, share delivered at loss {loss}, {size} brokers",
            f"at least {least:g} is wanted",
            share,
            share >= least,
            _settings(name, after),
            interval,
            note,
        )
    if size == _SMALL:
        yield _more_bytes(runs[network], PAPER, f"000-bytes-{size}", _settings(network, runs[network]), None)
    long = runs[network + _LONG]
    after = long.of(variant=OURS)
    yield _more_bytes(long, OURS, f"ours-bytes-{size}", _settings(network, long), overhead)
    worst = max(after.column("leaf_recovery_ratio"))
    yield Claim(
        f"ours-leaf-{size}",
        f"ours, bytes about recovery for each byte of events on the worst leaf link, {size} brokers",
        "at most 1 is wanted",
        worst,
        worst <= 1,
        _settings(network, after),
    )


def _more_bytes(runs: Runs, variant: str, id_: str, settings: str, most: float | None) -> Claim:
    before, found = runs.of(variant=BEST_EFFORT), runs.of(variant=variant)
    ratio, interval = ratio_of_sums(found.column("bytes"), before.column("bytes"))
    return Claim(
        id_,
        f"{variant}, bytes beyond best effort, {settings.partition(',')[0]}",
        "about 0.68, by a prototype of it" if most is None else f"at most {most:g} is wanted",
        ratio - 1,
        None if most is None else ratio - 1 <= most,
        settings,
        None if interval is None else (interval[0] - 1, interval[1] - 1),
    )


# Figures ---------------------------------------------------------------------------------------------------------


def _recovery_s(runs: Runs, quantile: str) -> Estimate:
    return estimate([each / 1e6 for each in runs.column(f"recovery_delay_us.{quantile}")])


def _figures(runs: Mapping[str, Runs]) -> Iterable[LineChart]:
    yield LineChart(
        "False negatives by the length of the record (paper 000, figure 6)",
        "publications that each one tells of (R)",
        "share of the owed deliveries that are missing",
        tuple(Line(network, tuple(_false_negatives(runs[network]))) for network in _NETWORKS.values()),
        note="the scheme of paper 000; bands: 95 % confidence",
    )
    yield LineChart(
        "False negatives over time (paper 000, figure 7), wan-12",
        "published after (s)",
        "share of the owed deliveries that are missing",
        tuple(Line(variant, tuple(_over_time(runs["wan-12"], variant))) for variant in (BEST_EFFORT, PAPER, OURS)),
    )
    yield LineChart(
        "The hit ratio climbs (paper 000, figure 10), wan-12",
        "time (s)",
        "share of the requested events that somebody repairs, since the time before",
        (Line(PAPER, tuple(_hit_ratios(runs["caches"]))),),
    )
    yield LineChart(
        "Caches (paper 000, figure 11), wan-12",
        "time (s)",
        "events of one publisher in a subscriber's cache, mean",
        (Line(PAPER, tuple(spot(each, _cached(runs["caches"].of(duration_s=each))) for each in _GROWING_S)),),
    )
    for network in _NETWORKS.values():
        yield LineChart(
            f"How long a recovered event takes, {network}",
            "share of the recovered events (%)",
            "from publishing to delivery (s)",
            tuple(
                Line(variant, tuple(_quantiles(runs[network].of(variant=variant))))
                for variant in (PAPER, WITH_CACHE, OURS)
            ),
        )
        yield LineChart(
            f"What recovery costs and brings, {network}",
            "bytes beyond best effort (%)",
            "share of the owed deliveries that are missing (%)",
            tuple(Line(variant, (_cost(runs[network], variant),)) for variant in _VARIANTS),
        )
    yield LineChart(
        "Ours: bytes against the time to recover, wan-12",
        "bytes beyond best effort (%)",
        "median time from publishing to the recovered delivery (s)",
        (
            Line("a digest every 0.1, 0.2, 0.4 and 1 s", tuple(_tradeoff(runs))),
            Line(PAPER, (_tradeoff_paper(runs),)),
        ),
    )
    yield _detection_chart(runs["detection"])


def _false_negatives(runs: Runs) -> Iterator[Spot]:
    for x, variant in ((0, BEST_EFFORT), (1, "R = 1"), (5, "R = 5"), (10, PAPER)):
        found = runs.of(variant=variant)
        yield spot(x, ratio_of_sums(found.column("lost"), found.column("owed")))


def _over_time(runs: Runs, variant: str) -> Iterator[Spot]:
    found = runs.of(variant=variant)
    seconds = found.rows[0]["slices_s"]
    names = {name.rpartition(".")[2] for row in found.rows for name in row if name.startswith("slices.owed.")}
    for name in sorted(names):
        owed, delivered = (found.column(f"slices.{what}.{name}") for what in ("owed", "delivered"))
        if all(owed):
            share, interval = ratio_of_sums(delivered, owed)
            lost = None if interval is None else (1 - interval[1], 1 - interval[0])
            yield spot((int(name) + 0.5) * seconds, (1 - share, lost))


def _hit_ratios(runs: Runs) -> Iterator[Spot]:
    before = [0.0, 0.0]
    for seconds in _GROWING_S:
        now = [runs.of(duration_s=seconds).total(f"recovery.{name}") for name in (c.ANSWERED, c.WANTED)]
        answered, wanted = (a - b for a, b in zip(now, before, strict=True))
        if wanted > 0:
            yield Spot(seconds, answered / wanted)
        before = now


def _cached(runs: Runs) -> Estimate:
    kept, followed = (runs.column(f"recovery.{name} at the end") for name in (c.KEPT, c.FOLLOWED))
    return ratio_of_sums(kept, followed)


def _quantiles(runs: Runs) -> Iterator[Spot]:
    for x, name in ((50, "p50"), (90, "p90"), (99, "p99")):
        yield spot(x, _recovery_s(runs, name))


def _cost(runs: Runs, variant: str) -> Spot:
    before, found = runs.of(variant=BEST_EFFORT), runs.of(variant=variant)
    return Spot(
        100 * (found.total("bytes") / before.total("bytes") - 1), 100 * found.total("lost") / found.total("owed")
    )


def _tradeoff(runs: Mapping[str, Runs]) -> Iterator[Spot]:
    before = runs["wan-12"].of(variant=BEST_EFFORT).total("bytes")
    for digest_s in _DIGEST_S:
        found = runs["digests"].of(reliability__digest_s=digest_s)
        yield spot(100 * (found.total("bytes") / before - 1), _recovery_s(found, "p50"))


def _tradeoff_paper(runs: Mapping[str, Runs]) -> Spot:
    before, found = (runs["wan-12"].of(variant=variant) for variant in (BEST_EFFORT, PAPER))
    return spot(100 * (found.total("bytes") / before.total("bytes") - 1), _recovery_s(found, "p50"))


def _detection_chart(runs: Runs) -> LineChart:
    lines: dict[str, list[Spot]] = {}
    for row in runs.rows:
        match, loss, record, share = _detected(row)
        half = 1.96 * _standard_error(share, row)
        lines.setdefault(f"match {match:g}, loss {loss:g}", []).append(Spot(record, share, share - half, share + half))
        expected = Spot(record, detection_probability(match, loss, record))
        lines.setdefault(f"Eq. 1: {match:g}, {loss:g}", []).append(expected)
    return LineChart(
        "Probability to detect a loss (paper 000, figure 2)",
        "publications that each one tells of (R)",
        "share of the losses that is detected",
        tuple(Line(name, tuple(spots)) for name, spots in lines.items()),
    )


STUDY = Study("end-to-end", "End-to-end recovery (paper 000)", _plans, _claims, _figures)
