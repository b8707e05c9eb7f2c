"""Our own designs beside the paper's styles, over the overlay: all that brokers say crosses the same lossy links."""

from collections.abc import Iterator, Mapping
from statistics import fmean

from holdfast_papers.claims import Claim, shown
from holdfast_papers.estimates import Estimate, difference, ratio
from holdfast_papers.gossip.measures import (
    COMBINED,
    FEW,
    NACK,
    NONE,
    OURS,
    bytes_per_delivery,
    delivered,
    gossip_bytes,
    sent,
    settings_of,
    shares,
)
from holdfast_papers.study import Runs
from holdfast_papers.verdicts import at_least, at_most, less_than, more_than

_BOTH = f"{NACK} and {OURS}"


def claims(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    for short, name, found, settings in (
        ("0.1", "loss 0.1", runs["overlay"], ", loss 0.1"),
        ("rebuilt", "links replaced every 0.03 s", runs["rebuilt"].of(reconfiguration__every_s=0.03), ", by unicast"),
        ("crashes", "broker crashes", runs["crashes"], ", each broker down for 0.6 s a minute"),
        ("bursts", "losses in bursts of 8", runs["bursts"], ", 0.1 of all messages"),
    ):
        others = {style: found.of(variant=style) for style in FEW if found.of(variant=style).rows}
        before = found.of(variant=NONE)
        note = f"without recovery {delivered(before).value:.4f}" if before.rows else ""
        yield from _beside(short, name, found.of(variant=OURS), others, settings_of(found, settings), note)
    yield from _links(runs)


def _beside(short: str, name: str, mine: Runs, others: Mapping[str, Runs], settings: str, note: str) -> Iterator[Claim]:
    """What ours delivers and what it costs, beside each of the others, seed by seed."""
    text = f"{OURS}, {name}: delivered"
    yield Claim(f"ours-delivered-{short}", text, "", delivered(mine), None, "ours", settings, note)
    for style, found in others.items():
        yield Claim(
            f"ours-delivered-{short}-{style}",
            f"{name}: delivered with {OURS} beyond {style}",
            "more is wanted",
            difference(shares(mine), shares(found)),
            more_than(0),
            "ours",
            settings,
            f"{style} {delivered(found).value:.4f}",
        )
        for id_, words, measure in (
            (f"ours-bytes-{short}", "bytes of digests, vectors and requests over all links", gossip_bytes),
            (f"ours-all-bytes-{short}", "bytes of all messages for each delivery", bytes_per_delivery),
        ):
            yield Claim(
                id_ if style == COMBINED else f"{id_}-{style}",
                f"{name}: {words}, {OURS} for each of {style}",
                "fewer are wanted",
                ratio(*([max(1.0, measure(each)) for each in of.by_seed()] for of in (mine, found))),
                less_than(1),
                "ours",
                settings,
            )


def _links(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    """Links that repair themselves, alone and with gossip behind them."""
    layers = runs["layers"]
    alone = layers.of(variant=NACK)
    settings = settings_of(layers, ", loss 0.1")
    yield _wanted("ours-nack-0.1", f"{NACK}, delivered at loss 0.1", delivered(alone), settings)
    again, events = ([sent(each, kind) for each in alone.by_seed()] for kind in ("Resent", "Publish"))
    asked = sent(alone, "Nack", "HighestSent") / sent(alone, "Publish")
    yield Claim(
        "ours-nack-transmissions",
        f"{NACK}, loss 0.1: events sent again over a link for each sent once",
        "at most 0.13 is wanted",
        ratio(again, events),
        at_most(0.13),
        "ours",
        settings,
        f"the closed form is 0.1 / 0.9; requests and last numbers, of a few bytes, are another {asked:.3f}",
    )
    yield _delay(runs["overlay"], alone, settings)
    others = {each: delivered(runs["bursts"].of(variant=each)).value for each in (NONE, COMBINED, OURS, _BOTH)}
    yield _wanted(
        "ours-nack-bursts",
        f"{NACK}, losses in bursts of 8: delivered",
        delivered(runs["bursts"].of(variant=NACK)),
        settings_of(runs["bursts"], ", 0.1 of all messages"),
        ", ".join(f"{name}: {value:.4f}" for name, value in others.items()),
    )
    for name, of, words in (
        ("0.1", layers, "at loss 0.1"),
        ("bursts", runs["bursts"], "losses in bursts"),
        ("crashes", runs["crashes"], "broker crashes"),
    ):
        one, two = of.of(variant=NACK), of.of(variant=_BOTH)
        text = f"{_BOTH}, {words}: delivered"
        yield Claim(f"ours-layers-{name}", text, "", delivered(two), None, "ours", settings_of(of))
        yield Claim(
            f"ours-layers-{name}-ahead",
            f"{text} beyond {NACK} alone",
            "at least as much is wanted",
            difference(shares(two), shares(one)),
            at_least(0),
            "ours",
            settings_of(of),
            f"{NACK} alone {shown(delivered(one).value)}",
        )


def _wanted(id_: str, text: str, share: Estimate, settings: str, note: str = "") -> Claim:
    return Claim(id_, text, "0.9999 is wanted", share, at_least(0.9999), "ours", settings, note)


def _delay(overlay: Runs, alone: Runs, settings: str) -> Claim:
    def medians_ms(found: Runs) -> list[float]:
        return [each / 1e3 for each in found.column("recovery_delay_us.p50")]

    times = {each: medians_ms(overlay.of(variant=each)) for each in (*FEW, OURS)}
    quickest = min(times, key=lambda style: fmean(times[style]))
    return Claim(
        "ours-nack-delay",
        f"{NACK}, loss 0.1: median delay of what was lost once, for that of the quickest gossip",
        "less is wanted",
        ratio(medians_ms(alone), times[quickest]),
        less_than(1),
        "ours",
        settings,
        f"{shown(fmean(medians_ms(alone)))} ms; {quickest} has {shown(fmean(times[quickest]))} ms",
    )
