"""The figures of paper 001, drawn again from our runs."""

from collections.abc import Iterator, Mapping

from holdfast.pipeline.charts.lines import Line, LineChart, Spot
from holdfast_papers.estimates import spot
from holdfast_papers.gossip.measures import (
    FEW,
    NONE,
    OURS,
    bytes_per_delivery,
    delivered,
    gossip_per_event,
    gossip_per_s,
    slices,
)
from holdfast_papers.study import Runs

_SHARE = "share of what is owed that is delivered"


def figures(runs: Mapping[str, Runs]) -> Iterator[LineChart]:
    for loss in (0.05, 0.1):
        yield _over_time(
            f"Delivery over time at loss {loss:g} (figure 3a)",
            {NONE: runs["baseline"].of(links__loss=loss), **_by_variant(runs["delivery"].of(links__loss=loss))},
        )
    for every_s in (0.2, 0.03):
        yield _over_time(
            f"Delivery over time, a link replaced every {every_s:g} s (figure 3b)",
            _by_variant(runs["rebuilt"].of(reconfiguration__every_s=every_s)),
        )
    yield _by_setting("Delivery by the size of the buffer (figure 4)", "events kept", runs, "buffers", "gossip_buffer")
    yield _by_setting(
        "Delivery by the gossip interval (figure 4)", "interval (s)", runs, "intervals", "gossip_interval_s"
    )
    yield _both(runs["both"])
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


def _by_setting(title: str, label: str, runs: Mapping[str, Runs], key: str, name: str) -> LineChart:
    """With the default, which the runs by loss have."""
    setting, lines = f"reliability.{name}", []
    default = {"gossip_buffer": 1_500, "gossip_interval_s": 0.03}[name]
    for style in FEW:
        of_style = runs[key].of(variant=style)
        spots = {
            value: delivered(Runs([row for row in of_style.rows if row[setting] == value]))
            for value in sorted({row[setting] for row in of_style.rows})
        }
        spots[default] = delivered(runs["delivery"].of(variant=style, links__loss=0.1))
        lines.append(Line(style, tuple(spot(value, spots[value]) for value in sorted(spots))))
    return LineChart(f"{title}, loss 0.1", label, _SHARE, tuple(lines), y_limits=(0, 1))


def _both(runs: Runs) -> LineChart:
    lines = []
    for buffer in sorted({row["reliability.gossip_buffer"] for row in runs.rows}):
        found = runs.of(reliability__gossip_buffer=buffer)
        intervals = sorted({row["reliability.gossip_interval_s"] for row in found.rows})
        spots = [spot(each, delivered(found.of(reliability__gossip_interval_s=each))) for each in intervals]
        lines.append(Line(f"{buffer:,} events kept", tuple(spots)))
    title = "Buffer and interval together, combined-pull, loss 0.1 (figure 5)"
    return LineChart(title, "interval (s)", _SHARE, tuple(lines), y_limits=(0, 1))


def _by_size(runs: Mapping[str, Runs]) -> Iterator[LineChart]:
    by_style: dict[str, dict[int, Runs]] = {style: {} for style in FEW}
    for name, found in _by_variant(runs["sizes"]).items():
        style, _, size = name.rpartition(", ")
        by_style[style][int(size)] = found
    for style, sizes in by_style.items():
        sizes[100] = runs["delivery"].of(variant=style, links__loss=0.1)
    shares = [
        Line(style, tuple(spot(size, delivered(sizes[size])) for size in sorted(sizes)))
        for style, sizes in by_style.items()
    ]
    yield LineChart("Delivery by system size, loss 0.1 (figure 6)", "brokers", _SHARE, tuple(shares), y_limits=(0, 1))
    for title, label, per_broker in (
        ("Gossip of a broker by system size (figure 9a)", "gossip messages of a broker (1/s)", True),
        ("Gossip and events by system size (figure 9a)", "gossip messages for each event message", False),
    ):
        lines = [
            Line(
                style,
                tuple(
                    Spot(size, gossip_per_s(found, size) if per_broker else gossip_per_event(found))
                    for size, found in sorted(sizes.items())
                ),
            )
            for style, sizes in by_style.items()
        ]
        yield LineChart(title, "brokers", label, tuple(lines))


def _by_patterns(runs: Mapping[str, Runs]) -> Iterator[LineChart]:
    counts = sorted({row["workload.per_client"] for row in runs["patterns"].rows})
    receivers = []
    for each in counts:
        found = runs["patterns"].of(workload__per_client=each)
        receivers.append(Spot(each, found.total("owed") / found.total("published")))
    yield LineChart(
        "Brokers that an event is for, by patterns of a broker (figure 7)",
        "patterns of a broker",
        "receivers of an event",
        (Line("of 100 brokers", tuple(receivers)),),
    )
    for key, load in (("patterns, calm", "5"), ("patterns", "50")):
        lines = [
            Line(
                style,
                tuple(spot(each, delivered(runs[key].of(variant=style, workload__per_client=each))) for each in counts),
            )
            for style in FEW
        ]
        title = f"Delivery by patterns of a broker, {load} publications/s, 4,000 events kept (figure 8)"
        yield LineChart(title, "patterns of a broker", _SHARE, tuple(lines), y_limits=(0, 1))
    lines = [
        Line(
            style,
            tuple(
                Spot(each, gossip_per_event(runs["patterns"].of(variant=style, workload__per_client=each)))
                for each in counts
            ),
        )
        for style in FEW
    ]
    title, label = "Gossip and events by patterns of a broker (figure 9b)", "gossip messages for each event message"
    yield LineChart(title, "patterns of a broker", label, tuple(lines))


def _by_loss(runs: Mapping[str, Runs]) -> LineChart:
    lines = []
    for key, load in (("losses", "50"), ("calm", "5")):
        for style in FEW:
            found = runs[key].of(variant=style) if key in runs else Runs([])
            losses = sorted({row["links.loss"] for row in found.rows})
            if losses:
                spots = [Spot(loss, gossip_per_s(found.of(links__loss=loss), 100)) for loss in losses]
                lines.append(Line(f"{style}, {load}/s", tuple(spots)))
    title = "Gossip by error rate (figure 10)"
    return LineChart(title, "loss of a link", "gossip messages of a broker (1/s)", tuple(lines))


def _bytes(runs: Mapping[str, Runs]) -> LineChart:
    """All styles and layers on one chart."""
    found = {NONE: runs["baseline"].of(links__loss=0.1), **_by_variant(runs["delivery"].of(links__loss=0.1))}
    found |= _by_variant(runs["layers"])
    lines = [
        Line(name, (Spot(bytes_per_delivery(each), 100 * delivered(each)[0]),))
        for name, each in found.items()
        if each.rows
    ]
    return LineChart(
        "Delivered against bytes, loss 0.1",
        "bytes between nodes for each delivery, all messages",
        "share of what is owed that is delivered (%)",
        tuple(lines),
        note=f"{OURS} is ours; the other styles are the paper's",
    )
