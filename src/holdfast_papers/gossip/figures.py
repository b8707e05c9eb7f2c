"""The figures of paper 001 by their own numbers, drawn again from our runs."""

from collections.abc import Callable, Iterator, Mapping

from holdfast.pipeline.charts.lines import Line, LineChart, Spot
from holdfast_papers.estimates import spot
from holdfast_papers.gossip.measures import (
    BUFFER,
    FEW,
    INTERVAL_S,
    NONE,
    OURS,
    PAPERS,
    base,
    bytes_per_delivery,
    delivered,
    gossip_per_event,
    gossip_per_s,
    match_probability,
    merged,
    of_size,
    of_value,
    sizes_of,
    slices,
    values_of,
)
from holdfast_papers.study import Runs

_SHARE = "share of what is owed that is delivered"
_ONE_SEED = "sweeps beside the ends have one seed"


def figures(runs: Mapping[str, Runs]) -> Iterator[LineChart]:
    for loss, key in ((0.05, "delivery, 0.05"), (0.1, "delivery")):
        yield _over_time(
            f"Delivery over time at loss {loss:g} (figure 3a)",
            {NONE: runs["baseline"].of(links__loss=loss), **_by_variant(runs[key])},
        )
    for every_s in (0.2, 0.03):
        yield _over_time(
            f"Delivery over time, a link replaced every {every_s:g} s (figure 3b)",
            _by_variant(runs["rebuilt"].of(reconfiguration__every_s=every_s)),
        )
    yield _by_setting("Delivery by the size of the buffer (figure 4)", "events kept", runs, "buffers", BUFFER)
    yield _by_setting("Delivery by the gossip interval (figure 4)", "interval (s)", runs, "intervals", INTERVAL_S)
    yield _both(runs)
    yield from _by_size(runs)
    yield from _by_patterns(runs)
    yield _by_loss(runs)
    yield _bytes(runs)


def _by_variant(runs: Runs) -> dict[str, Runs]:
    return {name: runs.of(variant=name) for name in dict.fromkeys(row["variant"] for row in runs.rows)}


def _over_time(title: str, by_style: Mapping[str, Runs]) -> LineChart:
    lines = []
    for style, found in by_style.items():
        totals: dict[float, list[float]] = {}
        for row in found.rows:
            for begins_s, owed, got in slices(row):
                total = totals.setdefault(begins_s, [0.0, 0.0])
                total[0] += owed
                total[1] += got
        lines.append(Line(style, tuple(Spot(at, got / owed) for at, (owed, got) in sorted(totals.items()))))
    return LineChart(title, "published at (s)", _SHARE, tuple(lines), y_limits=(0, 1))


def _by_setting(title: str, label: str, runs: Mapping[str, Runs], key: str, default: float) -> LineChart:
    """With the default, which the runs of all styles have."""
    lines = []
    for style in PAPERS:
        found = {value: of_value(runs, key, style, value) for value in values_of(runs, key)}
        found[default] = base(runs).of(variant=style)
        spots = [spot(value, delivered(each)) for value, each in sorted(found.items()) if each.rows]
        lines.append(Line(style, tuple(spots)))
    brokers = base(runs).rows[0]["topology.brokers"]
    note = f"{brokers} brokers; buffers as for 100; {_ONE_SEED}"
    return LineChart(f"{title}, loss 0.1", label, _SHARE, tuple(lines), y_limits=(0, 1), note=note)


def _both(runs: Mapping[str, Runs]) -> LineChart:
    points: dict[int, dict[float, Runs]] = {
        BUFFER: {each: of_value(runs, "intervals", "combined-pull", each) for each in values_of(runs, "intervals")}
    }
    for name, found in _by_variant(runs["both"]).items():
        buffer, interval = name.split(", ")
        points.setdefault(int(buffer), {})[float(interval)] = found
    lines = [
        Line(f"{buffer:,} events kept", tuple(spot(at, delivered(each)) for at, each in sorted(by_interval.items())))
        for buffer, by_interval in sorted(points.items())
    ]
    title = "Buffer and interval together, combined-pull, loss 0.1 (figure 5)"
    return LineChart(title, "interval (s)", _SHARE, tuple(lines), y_limits=(0, 1))


def _by_size(runs: Mapping[str, Runs]) -> Iterator[LineChart]:
    of = {
        style: {size: found for size in sizes_of(runs) if (found := of_size(runs, style, size)).rows}
        for style in PAPERS
    }
    yield LineChart(
        "Delivery by system size, loss 0.1 (figure 6)",
        "brokers",
        _SHARE,
        tuple(Line(s, tuple(spot(size, delivered(each)) for size, each in by.items())) for s, by in of.items()),
        y_limits=(0, 1),
    )
    measures: tuple[tuple[str, str, Callable[[Runs, int], float]], ...] = (
        ("Gossip of a broker by system size (figure 9a)", "gossip messages of a broker (1/s)", gossip_per_s),
        (
            "Gossip and events by system size (figure 9a)",
            "gossip messages for each event message",
            lambda found, _: gossip_per_event(found),
        ),
    )
    for title, label, measure in measures:
        lines = [
            Line(style, tuple(Spot(size, measure(found, size)) for size, found in by_size.items()))
            for style, by_size in of.items()
        ]
        yield LineChart(title, "brokers", label, tuple(lines))


def _by_patterns(runs: Mapping[str, Runs]) -> Iterator[LineChart]:
    receivers = [Spot(each, match_probability(each)) for each in (1, 2, 5, 10, 15, 20, 30)]
    yield LineChart(
        "Brokers that an event is for, by patterns of a broker (figure 7)",
        "patterns of a broker",
        "share of the brokers",
        (Line("closed form", tuple(receivers)),),
    )
    calm = [row for name, found in runs.items() if name.startswith("patterns") and "calm" in name for row in found.rows]
    busy = [row for row in merged(runs, "patterns").rows if row.get("workload.rate_per_s") != 5]
    loads = {"5": Runs(calm), "50": Runs(busy)}
    for load, found in loads.items():
        title = f"Delivery by patterns of a broker, {load} publications/s (figure 8)"
        yield _over_patterns(title, _SHARE, found, lambda each: spot(0, delivered(each)))
    for title, label, measure in (
        (
            "Gossip of a broker by its patterns (figure 9b)",
            "gossip messages of a broker (1/s)",
            lambda each: Spot(0, gossip_per_s(each, each.rows[0]["topology.brokers"])),
        ),
        (
            "Gossip and events by patterns of a broker (figure 9b)",
            "gossip messages for each event message",
            lambda each: Spot(0, gossip_per_event(each)),
        ),
    ):
        yield _over_patterns(title, label, loads["50"], measure)


def _over_patterns(title: str, label: str, found: Runs, measure: Callable[[Runs], Spot]) -> LineChart:
    counts = sorted({row["workload.per_client"] for row in found.rows})
    lines = []
    for style in PAPERS:
        of = {each: found.of(variant=style, workload__per_client=each) for each in counts}
        spots = [(each, measure(runs)) for each, runs in of.items() if runs.rows]
        lines.append(Line(style, tuple(Spot(each, at.y, at.low, at.high) for each, at in spots)))
    brokers, buffer = (found.rows[0][name] for name in ("topology.brokers", "reliability.gossip_buffer"))
    note = f"{brokers} brokers, {buffer:,} events kept; {_ONE_SEED}"
    return LineChart(title, "patterns of a broker", label, tuple(lines), note=note)


def _by_loss(runs: Mapping[str, Runs]) -> LineChart:
    lines = []
    for key, load in (("losses", "50"), ("calm", "5")):
        for style in FEW:
            found = merged(runs, key).of(variant=style)
            losses = sorted({row["links.loss"] for row in found.rows})
            if losses:
                brokers = found.rows[0]["topology.brokers"]
                spots = [Spot(loss, gossip_per_s(found.of(links__loss=loss), brokers)) for loss in losses]
                lines.append(Line(f"{style}, {load}/s", tuple(spots)))
    title = "Gossip by error rate (figure 10)"
    return LineChart(title, "loss of a link", "gossip messages of a broker (1/s)", tuple(lines))


def _bytes(runs: Mapping[str, Runs]) -> LineChart:
    """All styles and layers on one chart."""
    found = _by_variant(runs["overlay"]) | _by_variant(runs["layers"])
    return LineChart(
        "Delivered against bytes, loss 0.1, over the overlay",
        "bytes between nodes for each delivery, all messages",
        "share of what is owed that is delivered (%)",
        tuple(
            Line(name, (Spot(bytes_per_delivery(each), 100 * delivered(each).value),)) for name, each in found.items()
        ),
        note=f"{OURS} is ours; push and combined-pull are the paper's",
    )
