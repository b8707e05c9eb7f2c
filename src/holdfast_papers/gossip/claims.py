"""The claims of paper 001 and of ours, from the runs of the study."""

from collections.abc import Iterator, Mapping
from statistics import fmean

from holdfast.network.graph import distances
from holdfast.network.load import parse_text
from holdfast.network.presets import preset_text
from holdfast.protocol.gossip.settings import GossipSettings
from holdfast_papers.claims import Claim, shown
from holdfast_papers.estimates import Estimate, difference, estimate, extreme, ratio
from holdfast_papers.gossip.measures import (
    COMBINED,
    FEW,
    NACK,
    NONE,
    OURS,
    PRESET,
    PUBLISHER,
    PUSH,
    RANDOM,
    STYLES,
    SUBSCRIBER,
    delivered,
    gossip_bytes,
    gossip_per_event,
    gossip_per_s,
    sent,
    shares,
    worst_slice,
)
from holdfast_papers.study import Runs
from holdfast_papers.verdicts import about, at_least, at_most, less_than, more_than

_SHARE = 0.02  # what "about" allows of a share of deliveries: as closely as the figures can be read


def claims(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    yield from _baseline(runs["baseline"])
    yield from _delivery(runs["delivery"])
    yield from _rebuilt(runs["rebuilt"])
    yield from _tuning(runs)
    yield from _scale(runs)
    yield from _overhead(runs)
    yield from _ours(runs)
    yield from _links(runs)


def _settings(found: Runs, more: str = "") -> str:
    row, seeds = found.rows[0], sorted({each["seed"] for each in found.rows})
    which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    return f"100 brokers, {row['duration_s']:g} s, {which}{more}"


def expected_delivery(loss: float) -> float:
    """Of the preset's tree: the mean over all pairs of brokers of the chance that nothing is lost between them."""
    neighbours = parse_text(preset_text(PRESET)).neighbours()
    return fmean((1 - loss) ** far for one in neighbours for far in distances(neighbours, one).values())


def _baseline(runs: Runs) -> Iterator[Claim]:
    for loss, paper in ((0.01, 0.95), (0.05, 0.75), (0.1, 0.55)):
        found = runs.of(links__loss=loss)
        yield Claim(
            f"001-a-{loss:g}",
            f"delivered without recovery at loss {loss:g}",
            f"{paper:g}",
            delivered(found),
            about(paper, _SHARE),
            "fitted",
            _settings(found),
            f"exact mean over the tree, which was chosen for these: {expected_delivery(loss):.4f}; the paper's text "
            "swaps 0.05 and 0.1",
        )


def _delivery(runs: Runs) -> Iterator[Claim]:
    settings = _settings(runs)
    for style in FEW:
        for loss, paper in ((0.05, 0.98), (0.1, 0.90)):
            yield Claim(
                f"001-b-{style}-{loss:g}",
                f"{style}, delivered at loss {loss:g}",
                f"close to {paper:g}",
                delivered(runs.of(variant=style, links__loss=loss)),
                about(paper, _SHARE),
                "fitted",
                settings,
                "gossip_forward and gossip_source are fitted",
            )
    by_style = {style: shares(runs.of(variant=style, links__loss=0.1)) for style in STYLES}
    yield Claim(
        "001-d",
        "subscriber-pull alone, delivered at loss 0.1",
        "a limit at about 0.78",
        delivered(runs.of(variant=SUBSCRIBER, links__loss=0.1)),
        about(0.78, _SHARE),
        "paper",
        settings,
    )
    for style in (PUBLISHER, RANDOM):
        yield Claim(
            f"001-e-{style}",
            f"loss 0.1: delivered with {style} beyond {SUBSCRIBER}",
            "performs better",
            difference(by_style[style], by_style[SUBSCRIBER]),
            more_than(0),
            "paper",
            settings,
            f"{style} {fmean(by_style[style]):.4f}",
        )
    for style in (PUBLISHER, RANDOM, SUBSCRIBER):
        yield Claim(
            f"001-best-{style}",
            f"loss 0.1: delivered with the lesser of {' and '.join(FEW)} beyond {style}",
            "these two perform best",
            difference([min(both) for both in zip(*(by_style[each] for each in FEW), strict=True)], by_style[style]),
            more_than(0),
            "paper",
            settings,
        )


def _rebuilt(runs: Runs) -> Iterator[Claim]:
    for every_s, least, paper, low in (
        (0.2, 1 - _SHARE, "levelled near 1", 0.7),
        (0.03, 0.95, "never below 0.95", 0.6),
    ):
        before = runs.of(variant=NONE, reconfiguration__every_s=every_s)
        worst_before = [worst_slice(each) for each in before.by_seed()]
        yield Claim(
            f"001-l-none-{every_s:g}",
            f"no recovery, a link replaced every {every_s:g} s: worst tenth of a second",
            f"as low as {low:g}",
            estimate(worst_before),
            about(low),
            "paper",
            _settings(before, ", no other loss"),
        )
        for style in (PUSH, COMBINED, OURS):
            found = runs.of(variant=style, reconfiguration__every_s=every_s)
            worst, seeds = worst_slice(found), len(found.by_seed())
            yield Claim(
                f"001-l-{style}-{every_s:g}",
                f"{style}, a link replaced every {every_s:g} s: worst tenth of a second",
                paper if style != OURS else "the same is wanted",
                extreme(worst, seeds),
                at_least(least, "every"),
                "ours" if style == OURS else "paper",
                _settings(found, ", no other loss"),
                f"mean {delivered(found).value:.4f}, worst tenth {worst:.3f}; without recovery the worst is "
                f"{min(worst_before):.3f}",
            )


def _tuning(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    for key, name, small, large in (
        ("buffers", "reliability.gossip_buffer", "small buffers", "large ones"),
        ("intervals", "reliability.gossip_interval_s", "short intervals", "long ones"),
    ):
        values = sorted({row[name] for row in runs[key].rows})
        for value, words, pull_leads in (
            (values[0], small, key == "buffers"),
            (values[-1], large, key == "intervals"),
        ):
            pulled, pushed = (
                shares(Runs([row for row in runs[key].of(variant=style).rows if row[name] == value]))
                for style in (COMBINED, PUSH)
            )
            yield Claim(
                f"001-{key}-{value:g}",
                f"{words} ({name.partition('.')[2]} = {value:g}): combined-pull ahead of push by",
                "combined-pull is better" if pull_leads else "push is better",
                difference(pulled, pushed),
                more_than(0) if pull_leads else less_than(0),
                "paper",
                _settings(runs[key], ", loss 0.1"),
                f"combined-pull {fmean(pulled):.4f}, push {fmean(pushed):.4f}",
            )


def _of_size(runs: Mapping[str, Runs], style: str, size: int) -> Runs:
    if size == 100:
        return runs["delivery"].of(variant=style, links__loss=0.1)
    return runs["sizes"].of(variant=f"{style}, {size}")


def sizes_of(runs: Mapping[str, Runs]) -> list[int]:
    return sorted({100, *(int(row["variant"].rpartition(" ")[2]) for row in runs["sizes"].rows)})


def _scale(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    sizes = sizes_of(runs)
    least, most = sizes[0], sizes[-1]
    words = f"{least} to {most} brokers, buffers of 15 events a broker, loss 0.1"
    for style in FEW:
        of = {size: _of_size(runs, style, size) for size in sizes}
        settings = f"{words}; {_settings(of[least]).partition(', ')[2]}"
        yield Claim(
            f"001-n-{style}",
            f"{style}: delivery with the most brokers, less that with the fewest",
            "good scalability",
            difference(shares(of[most]), shares(of[least])),
            at_least(-_SHARE),
            "paper",
            settings,
            ", ".join(f"{size}: {delivered(found).value:.3f}" for size, found in of.items()),
        )
        rates = {size: [gossip_per_s(each, size) for each in found.by_seed()] for size, found in of.items()}
        yield Claim(
            f"001-i-{style}",
            f"{style}: gossip of a broker grows by, for {most / least:g} times the brokers",
            "well below a linear trend",
            ratio(rates[most], rates[least]),
            less_than(most / least / 2),
            "paper",
            settings,
            ", ".join(f"{size}: {fmean(rate):.0f}/s" for size, rate in rates.items())
            + "; well below is taken as less than half",
        )
        yield from _gossip_per_event(style, of, settings)


def _gossip_per_event(style: str, of: Mapping[int, Runs], settings: str) -> Iterator[Claim]:
    """The paper gives two points of its figure 9 and does not say of which style; both styles are judged by them."""
    ratios = {size: [gossip_per_event(each) for each in found.by_seed()] for size, found in of.items()}
    papers = {40: 0.28, 200: 0.2}
    least, most = papers
    note = ", ".join(f"{size}: {fmean(each):.3f}" for size, each in ratios.items())
    yield Claim(
        f"001-h-{style}",
        f"{style}: gossip for each event message, at {most} brokers over that at {least}",
        f"about {papers[least]} falls to {papers[most]}",
        ratio(ratios[most], ratios[least]),
        about(round(papers[most] / papers[least], 3)),
        "paper",
        settings,
        note + "; gossip after the last event counts too",
    )
    for size, paper in papers.items():
        yield Claim(
            f"001-h-{style}-{size}",
            f"{style}: gossip for each event message, {size} brokers",
            f"about {paper}",
            estimate(ratios[size]),
            about(paper),
            "paper",
            settings,
        )


def _overhead(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    most = max(row["workload.per_client"] for row in runs["patterns"].rows)
    for style in FEW:
        few, many = (runs["patterns"].of(variant=style, workload__per_client=each) for each in (1, most))
        yield Claim(
            f"001-patterns-{style}",
            f"{style}: gossip for each event message, {most} patterns a broker over 1",
            "decreases significantly",
            ratio(*([gossip_per_event(each) for each in found.by_seed()] for found in (many, few))),
            less_than(0.9),
            "paper",
            _settings(few, ", loss 0.1"),
            "significantly is taken as by more than a tenth",
        )
    looked_for_s = GossipSettings(style="combined-pull").search_us / 1e6
    pulled, pushed = (
        [gossip_per_s(each, 100) for each in runs["calm"].of(variant=style, links__loss=0.01).by_seed()]
        for style in (COMBINED, PUSH)
    )
    yield Claim(
        "001-j",
        "loss 0.01 and 5 publications/s: gossip of combined-pull for each of push",
        "one third",
        ratio(pulled, pushed),
        about(round(1 / 3, 3)),
        "paper",
        _settings(runs["calm"]),
        f"a lost event is looked for during {looked_for_s:g} s here; the paper does not say for how long",
    )


def _ours(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    for short, name, found, settings in (
        ("rebuilt", "links replaced every 0.03 s", runs["rebuilt"].of(reconfiguration__every_s=0.03), ""),
        ("crashes", "broker crashes", runs["crashes"], ", each broker down for 0.6 s a minute"),
    ):
        pulled, ours = found.of(variant=COMBINED), found.of(variant=OURS)
        yield from _ahead(
            f"ours-delivered-{short}",
            f"{OURS}, {name}: delivered",
            ours,
            {COMBINED: pulled},
            _settings(ours, settings),
            f"without recovery {delivered(found.of(variant=NONE)).value:.4f}",
        )
        yield Claim(
            f"ours-bytes-{short}",
            f"{OURS}, {name}: bytes of digests and requests for each of {COMBINED}",
            "fewer are wanted",
            ratio(
                [gossip_bytes(each) for each in ours.by_seed()],
                [max(1.0, gossip_bytes(each)) for each in pulled.by_seed()],
            ),
            less_than(1),
            "ours",
            _settings(ours, settings),
        )
    at = runs["delivery"].of(links__loss=0.1)
    others = {style: at.of(variant=style) for style in FEW}
    text = f"{OURS}, delivered at loss 0.1"
    yield from _ahead("ours-delivered-0.1", text, at.of(variant=OURS), others, _settings(runs["delivery"]))


def _ahead(
    id_: str, text: str, ours: Runs, others: Mapping[str, Runs], settings: str, note: str = ""
) -> Iterator[Claim]:
    """What ours delivers, to look at, and how far it is ahead of the best of the others, seed by seed."""
    yield Claim(id_, text, "", delivered(ours), None, "ours", settings, note)
    best = [max(each) for each in zip(*(shares(found) for found in others.values()), strict=True)]
    yield Claim(
        f"{id_}-ahead",
        f"{text} beyond the best of {', '.join(others)}",
        "more is wanted",
        difference(shares(ours), best),
        more_than(0),
        "ours",
        settings,
    )


def _links(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    """Links that repair themselves, alone and with gossip behind them."""
    layers, both = runs["layers"], f"{NACK} and {OURS}"
    alone = layers.of(variant=NACK)
    settings = _settings(layers, ", loss 0.1")
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
    yield _delay(runs, alone, settings)
    others = {each: delivered(runs["bursts"].of(variant=each)).value for each in (NONE, COMBINED, OURS, both)}
    yield _wanted(
        "ours-nack-bursts",
        f"{NACK}, losses in bursts of 8: delivered",
        delivered(runs["bursts"].of(variant=NACK)),
        _settings(runs["bursts"], ", 0.1 of all messages"),
        ", ".join(f"{name}: {value:.4f}" for name, value in others.items()),
    )
    for name, of, words in (
        ("0.1", layers, "at loss 0.1"),
        ("bursts", runs["bursts"], "losses in bursts"),
        ("crashes", runs["crashes"], "broker crashes"),
    ):
        one, two = of.of(variant=NACK), of.of(variant=both)
        text = f"{both}, {words}: delivered"
        yield Claim(f"ours-layers-{name}", text, "", delivered(two), None, "ours", _settings(of))
        yield Claim(
            f"ours-layers-{name}-ahead",
            f"{text} beyond {NACK} alone",
            "at least as much is wanted",
            difference(shares(two), shares(one)),
            at_least(0),
            "ours",
            _settings(of),
            f"{NACK} alone {shown(delivered(one).value)}",
        )


def _wanted(id_: str, text: str, share: Estimate, settings: str, note: str = "") -> Claim:
    return Claim(id_, text, "0.9999 is wanted", share, at_least(0.9999), "ours", settings, note)


def _delay(runs: Mapping[str, Runs], alone: Runs, settings: str) -> Claim:
    def medians_ms(found: Runs) -> list[float]:
        return [each / 1e3 for each in found.column("recovery_delay_us.p50")]

    times = {each: medians_ms(runs["delivery"].of(variant=each, links__loss=0.1)) for each in STYLES}
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
