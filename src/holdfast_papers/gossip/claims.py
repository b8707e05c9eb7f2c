"""The claims of paper 001 and of ours, from the runs of the study."""

from collections.abc import Iterator, Mapping
from statistics import fmean

from holdfast.network.graph import distances
from holdfast.network.load import parse_text
from holdfast.network.presets import preset_text
from holdfast.protocol.gossip.settings import GossipSettings
from holdfast_papers.claims import Claim, Estimate, shown
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
    worst_slice,
)
from holdfast_papers.study import Runs


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


def _claim(id_: str, claim: str, paper: str, found: Estimate, holds: bool, settings: str, note: str = "") -> Claim:
    return Claim(id_, claim, paper, found[0], holds, settings, found[1], note)


def expected_delivery(loss: float) -> float:
    """Of the preset's tree: the mean over all pairs of brokers of the chance that nothing is lost between them."""
    neighbours = parse_text(preset_text(PRESET)).neighbours()
    return fmean((1 - loss) ** far for one in neighbours for far in distances(neighbours, one).values())


def _baseline(runs: Runs) -> Iterator[Claim]:
    for loss, paper in ((0.01, 0.95), (0.05, 0.75), (0.1, 0.55)):
        found = runs.of(links__loss=loss)
        share, exact = delivered(found), expected_delivery(loss)
        yield _claim(
            f"001-a-{loss:g}",
            f"delivered without recovery at loss {loss:g}",
            f"{paper:g}",
            share,
            abs(share[0] - paper) <= 0.02,
            _settings(found),
            f"exact mean over the tree: {exact:.4f}; the paper's text swaps 0.05 and 0.1",
        )


def _delivery(runs: Runs) -> Iterator[Claim]:
    def of(style: str, loss: float) -> Estimate:
        return delivered(runs.of(variant=style, links__loss=loss))

    for style in FEW:
        for loss, paper, slack in ((0.05, 0.98, 0.02), (0.1, 0.90, 0.05)):
            share = of(style, loss)
            yield _claim(
                f"001-b-{style}-{loss:g}",
                f"{style}, delivered at loss {loss:g}",
                f"about {paper:g}",
                share,
                abs(share[0] - paper) <= slack,
                _settings(runs),
                "gossip_forward and gossip_source are fitted",
            )
    lone = of(SUBSCRIBER, 0.1)
    text = "subscriber-pull alone, delivered at loss 0.1"
    yield _claim("001-d", text, "about 0.78 at most", lone, lone[0] <= 0.79, _settings(runs))
    for style in (PUBLISHER, RANDOM):
        share = of(style, 0.1)
        between = lone[0] < share[0] < max(of(each, 0.1)[0] for each in FEW)
        yield _claim(
            f"001-e-{style}", f"{style}, delivered at loss 0.1", "between the others", share, between, _settings(runs)
        )


def _rebuilt(runs: Runs) -> Iterator[Claim]:
    for every_s, least in ((0.2, 0.99), (0.03, 0.95)):
        before = worst_slice(runs.of(variant=NONE, reconfiguration__every_s=every_s))
        for style in (PUSH, COMBINED, OURS):
            found = runs.of(variant=style, reconfiguration__every_s=every_s)
            mean, worst = delivered(found), worst_slice(found)
            paper = "levelled near 1" if every_s == 0.2 else "never below 0.95"
            yield _claim(
                f"001-l-{style}-{every_s:g}",
                f"{style}, a link replaced every {every_s:g} s: worst tenth of a second"
                if every_s == 0.03
                else f"{style}, a link replaced every {every_s:g} s: delivered",
                paper if style != OURS else "the same is wanted",
                mean if every_s == 0.2 else (worst, None),
                (mean[0] if every_s == 0.2 else worst) >= least,
                _settings(found, ", no other loss"),
                f"mean {mean[0]:.4f}, worst tenth {worst:.3f}; without recovery the worst is {before:.3f}",
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
            shares = {
                style: delivered(Runs([row for row in runs[key].of(variant=style).rows if row[name] == value]))[0]
                for style in FEW
            }
            lead = shares[COMBINED] - shares[PUSH]
            yield Claim(
                f"001-{key}-{value:g}",
                f"{words} ({name.partition('.')[2]} = {value:g}): combined-pull ahead of push by",
                "above 0" if pull_leads else "below 0",
                lead,
                (lead > 0) == pull_leads,
                _settings(runs[key], ", loss 0.1"),
                None,
                f"combined-pull {shares[COMBINED]:.4f}, push {shares[PUSH]:.4f}",
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
    for style in FEW:
        shares = [delivered(_of_size(runs, style, size))[0] for size in sizes]
        settings = f"{least} to {most} brokers, buffers of 15 events a broker, loss 0.1"
        yield Claim(
            f"001-n-{style}",
            f"{style}: delivery with the most brokers, less that with the fewest",
            "holds as the system grows",
            shares[-1] - shares[0],
            shares[-1] >= shares[0] - 0.05,
            settings,
            None,
            ", ".join(f"{size}: {share:.3f}" for size, share in zip(sizes, shares, strict=True)),
        )
        rates = [gossip_per_s(_of_size(runs, style, size), size) for size in sizes]
        yield Claim(
            f"001-i-{style}",
            f"{style}: gossip of a broker grows by, for {most / least:g} times the brokers",
            "much less than the brokers",
            rates[-1] / rates[0],
            rates[-1] / rates[0] < 0.75 * most / least,
            settings,
            None,
            ", ".join(f"{size}: {rate:.0f}/s" for size, rate in zip(sizes, rates, strict=True)),
        )
        ratios = [gossip_per_event(_of_size(runs, style, size)) for size in sizes]
        yield Claim(
            f"001-h-{style}",
            f"{style}: gossip for each event message, at {most} brokers over that at {least}",
            "about 0.28 falls to 0.2",
            ratios[-1] / ratios[0],
            ratios[-1] < ratios[0],
            settings,
            None,
            ", ".join(f"{size}: {ratio:.3f}" for size, ratio in zip(sizes, ratios, strict=True))
            + "; gossip after the last event counts too",
        )


def _overhead(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    most = max(row["workload.per_client"] for row in runs["patterns"].rows)
    for style in FEW:
        few, many = (runs["patterns"].of(variant=style, workload__per_client=each) for each in (1, most))
        yield Claim(
            f"001-patterns-{style}",
            f"{style}: gossip for each event message, {most} patterns a broker over 1",
            "falls",
            gossip_per_event(many) / gossip_per_event(few),
            gossip_per_event(many) < gossip_per_event(few),
            _settings(few, ", loss 0.1"),
        )
    looked_for_s = GossipSettings(style="combined-pull").search_us / 1e6
    rates = {style: gossip_per_s(runs["calm"].of(variant=style, links__loss=0.01), 100) for style in FEW}
    yield Claim(
        "001-j",
        "loss 0.01 and 5 publications/s: gossip of combined-pull for each of push",
        "about a third",
        rates[COMBINED] / rates[PUSH],
        0.2 <= rates[COMBINED] / rates[PUSH] <= 0.5,
        _settings(runs["calm"]),
        None,
        f"a lost event is looked for during {looked_for_s:g} s here; the paper does not say for how long",
    )


def _ours(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    for name, found, settings in (
        ("links replaced every 0.03 s", runs["rebuilt"].of(reconfiguration__every_s=0.03), ""),
        ("broker crashes", runs["crashes"], ", each broker down for 0.6 s a minute"),
    ):
        pulled, ours = found.of(variant=COMBINED), found.of(variant=OURS)
        short = name.rpartition(" ")[2] if "crash" in name else "rebuilt"
        shares, costs = (delivered(pulled), delivered(ours)), (gossip_bytes(pulled), gossip_bytes(ours))
        yield _claim(
            f"ours-delivered-{short}",
            f"{OURS}, {name}: delivered",
            f"more than {COMBINED}: {shown(shares[0][0])}",
            shares[1],
            shares[1][0] > shares[0][0],
            _settings(ours, settings),
            f"without recovery {delivered(found.of(variant=NONE))[0]:.4f}",
        )
        yield Claim(
            f"ours-bytes-{short}",
            f"{OURS}, {name}: bytes of digests and requests for each of {COMBINED}",
            "fewer are wanted",
            costs[1] / max(1.0, costs[0]),
            costs[1] < costs[0],
            _settings(ours, settings),
        )
    share = delivered(runs["delivery"].of(variant=OURS, links__loss=0.1))
    best = max(delivered(runs["delivery"].of(variant=each, links__loss=0.1))[0] for each in FEW)
    yield _claim(
        "ours-delivered-0.1",
        f"{OURS}, delivered at loss 0.1",
        f"more than the paper's best: {shown(best)}",
        share,
        share[0] > best,
        _settings(runs["delivery"]),
    )


def _links(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    """Links that repair themselves, alone and with gossip behind them."""
    layers, both = runs["layers"], f"{NACK} and {OURS}"
    alone = layers.of(variant=NACK)
    settings = _settings(layers, ", loss 0.1")
    share = delivered(alone)
    yield _claim(
        "ours-nack-0.1", f"{NACK}, delivered at loss 0.1", "0.9999 is wanted", share, share[0] >= 0.9999, settings
    )
    events, again, asked = sent(alone, "Publish"), sent(alone, "Resent"), sent(alone, "Missing", "Latest")
    yield Claim(
        "ours-nack-transmissions",
        f"{NACK}, loss 0.1: events sent again over a link for each sent once",
        "at most 0.13 is wanted",
        again / events,
        again / events <= 0.13,
        settings,
        None,
        f"the closed form is 0.1 / 0.9; requests and last numbers, of a few bytes, are another {asked / events:.3f}",
    )
    times = {each: runs["delivery"].of(variant=each, links__loss=0.1).total("recovery_delay_us.p50") for each in STYLES}
    quickest = min(times, key=lambda style: times[style])
    median = alone.total("recovery_delay_us.p50")
    yield Claim(
        "ours-nack-delay",
        f"{NACK}, loss 0.1: median delay of what was lost once, ms",
        f"less than with any gossip: {quickest} has {shown(times[quickest] / 1e3)}",
        median / 1e3,
        median < times[quickest],
        settings,
    )
    share = delivered(runs["bursts"].of(variant=NACK))
    others = {each: delivered(runs["bursts"].of(variant=each))[0] for each in (NONE, COMBINED, OURS, both)}
    yield _claim(
        "ours-nack-bursts",
        f"{NACK}, losses in bursts of 8: delivered",
        "0.9999 is wanted",
        share,
        share[0] >= 0.9999,
        _settings(runs["bursts"], ", 0.1 of all messages"),
        ", ".join(f"{name}: {value:.4f}" for name, value in others.items()),
    )
    for name, of, words in (
        ("0.1", layers, "at loss 0.1"),
        ("bursts", runs["bursts"], "losses in bursts"),
        ("crashes", runs["crashes"], "broker crashes"),
    ):
        one, two = delivered(of.of(variant=NACK)), delivered(of.of(variant=both))
        yield _claim(
            f"ours-layers-{name}",
            f"{both}, {words}: delivered",
            f"at least as much as {NACK} alone: {shown(one[0])}",
            two,
            two[0] >= one[0],
            _settings(of),
        )
