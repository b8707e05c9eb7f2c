"""Paper 001, epidemic recovery in brokers: its five styles, ours, and ours together with links that repair themselves.

The paper leaves open the shape of its tree, the chance that gossip is sent on, how often combined pull asks towards the
publisher, and what unicast between dispatchers loses. The tree is the one that gives its three baselines; the two
chances are fitted; unicast loses nothing here. Delivery is measured over events that are published well after the
start and well before the end of a run, so that neither empty buffers nor missing time count.
"""

from collections.abc import Iterator, Mapping
from statistics import fmean

from holdfast.network.graph import distances
from holdfast.network.load import parse_text
from holdfast.network.presets import preset_text
from holdfast.pipeline.sweep_check import plan
from holdfast.pipeline.sweep_plan import Plan, preset_document
from holdfast.reproduce.claims import Claim, Estimate, shown
from holdfast.reproduce.gossip_figures import figures
from holdfast.reproduce.gossip_measures import (
    COMBINED,
    NONE,
    OURS,
    PUBLISHER,
    PUSH,
    RANDOM,
    SUBSCRIBER,
    delivered,
    gossip_bytes,
    gossip_per_event,
    gossip_per_s,
    worst_slice,
)
from holdfast.reproduce.study import Runs, Scale, Study

_PRESET = "epidemic-100"
_SECONDS: dict[Scale, float] = {"quick": 7.0, "paper": 25.0}
_CALM_S: dict[Scale, float] = {
    "quick": 12.0,
    "paper": 25.0,
}  # at 5 publications a second a loss takes long to be noticed
_SEEDS: dict[Scale, int] = {"quick": 1, "paper": 3}
_FEW = (PUSH, COMBINED)
_STYLES = (PUSH, COMBINED, PUBLISHER, RANDOM, SUBSCRIBER, OURS)
_BUFFERS: dict[Scale, tuple[int, ...]] = {"quick": (500, 4_000), "paper": (500, 1_000, 2_000, 3_000, 4_000)}
_INTERVALS: dict[Scale, tuple[float, ...]] = {"quick": (0.015, 0.055), "paper": (0.01, 0.02, 0.04, 0.055)}
_SIZES: dict[Scale, tuple[int, ...]] = {"quick": (40, 160), "paper": (40, 70, 130, 160, 200)}
_PATTERNS: dict[Scale, tuple[int, ...]] = {"quick": (1, 6), "paper": (1, 4, 6, 10, 20, 30)}
_LOSSES = (0.01, 0.05)
_LAYERS: dict[str, dict[str, object]] = {
    "nack": {"reliability.hops": "nack"},
    f"nack and {OURS}": {"reliability.hops": "nack", "reliability.gossip": OURS},
    "end-to-end": {"reliability.recovery": "end-to-end"},
    f"end-to-end and {COMBINED}": {"reliability.recovery": "end-to-end", "reliability.gossip": COMBINED},
}
_CRASHES: dict[str, object] = {
    "links.loss": 0.0,
    "brokers.availability": 0.99,  # a broker is up for a minute, then down for 0.6 s:
    "brokers.cycle_s": 60,  # of a hundred, every 0.6 s another one
    "protocol.heartbeat_s": 0.2,
    "protocol.lease_s": 0.7,
}


def _styles(*names: str) -> dict[str, dict[str, object]]:
    return {name: {"reliability.gossip": "none" if name == NONE else name} for name in names}


def _plans(scale: Scale) -> Mapping[str, Plan]:
    network, seeds, seconds = preset_document(_PRESET), _SEEDS[scale], _SECONDS[scale]
    fixed: dict[str, object] = {
        "duration_s": seconds,
        "workload.start_s": 0.1,
        "workload.stop_s": seconds,
        "slices_s": 0.5,
        "links.lossy_control": False,  # the paper's subscriptions are stable
        "reliability.gossip_transfer": "direct",
    }
    calm = {**fixed, "duration_s": _CALM_S[scale], "workload.stop_s": _CALM_S[scale], "workload.rate_per_s": 5}
    rebuilt = {**fixed, "links.loss": 0.0, "slices_s": 0.1}

    def made(
        variants: Mapping[str, Mapping[str, object]], settings: Mapping[str, object], **grid: tuple[object, ...]
    ) -> Plan:
        axes = {key.replace("__", "."): list(values) for key, values in grid.items()}
        return plan(network, axes, variants=variants, seeds=seeds, settings=settings)

    sizes = {
        f"{name}, {size}": {**changed, "topology.brokers": size, "reliability.gossip_buffer": 15 * size}
        for name, changed in _styles(*_FEW).items()
        for size in _SIZES[scale]
    }
    both = [
        {
            "reliability__gossip_buffer": (500, 1_500, 2_500, 3_500),
            "reliability__gossip_interval_s": (0.01, 0.03, 0.055),
        }
    ]
    quick = scale == "quick"
    return {
        "baseline": made(_styles(NONE), fixed, links__loss=(0.01, 0.05, 0.1)),
        "delivery": made(_styles(*_STYLES), fixed, links__loss=(0.05, 0.1)),
        "layers": made(_LAYERS, fixed),
        "rebuilt": made(_styles(NONE, PUSH, COMBINED, OURS), rebuilt, reconfiguration__every_s=(0.03, 0.2)),
        "crashes": made(_styles(NONE, COMBINED, OURS), {**fixed, **_CRASHES}),
        "buffers": made(_styles(*_FEW), fixed, reliability__gossip_buffer=_BUFFERS[scale]),
        "intervals": made(_styles(*_FEW), fixed, reliability__gossip_interval_s=_INTERVALS[scale]),
        **({} if quick else {"both": made(_styles(COMBINED), fixed, **both[0])}),
        "sizes": made(sizes, fixed),
        "patterns": made(
            _styles(*_FEW), {**fixed, "reliability.gossip_buffer": 4_000}, workload__per_client=_PATTERNS[scale]
        ),
        "patterns, calm": made(
            _styles(*_FEW), {**calm, "reliability.gossip_buffer": 4_000}, workload__per_client=_PATTERNS[scale]
        ),
        "calm": made(_styles(*_FEW), calm, links__loss=_LOSSES),
        **({} if quick else {"losses": made(_styles(*_FEW), fixed, links__loss=_LOSSES)}),
    }


# Claims ----------------------------------------------------------------------------------------------------------


def _claims(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    yield from _baseline(runs["baseline"])
    yield from _delivery(runs["delivery"])
    yield from _rebuilt(runs["rebuilt"])
    yield from _tuning(runs)
    yield from _scale(runs)
    yield from _overhead(runs)
    yield from _ours(runs)


def _settings(found: Runs, more: str = "") -> str:
    row, seeds = found.rows[0], sorted({each["seed"] for each in found.rows})
    which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    return f"100 brokers, {row['duration_s']:g} s, {which}{more}"


def _claim(id_: str, claim: str, paper: str, found: Estimate, holds: bool, settings: str, note: str = "") -> Claim:
    return Claim(id_, claim, paper, found[0], holds, settings, found[1], note)


def expected_delivery(loss: float) -> float:
    """Of the preset's tree: the mean over all pairs of brokers of the chance that nothing is lost between them."""
    neighbours = parse_text(preset_text(_PRESET)).neighbours()
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

    for style in _FEW:
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
        between = lone[0] < share[0] < max(of(each, 0.1)[0] for each in _FEW)
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
                for style in _FEW
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
    for style in _FEW:
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
    for style in _FEW:
        few, many = (runs["patterns"].of(variant=style, workload__per_client=each) for each in (1, most))
        yield Claim(
            f"001-patterns-{style}",
            f"{style}: gossip for each event message, {most} patterns a broker over 1",
            "falls",
            gossip_per_event(many) / gossip_per_event(few),
            gossip_per_event(many) < gossip_per_event(few),
            _settings(few, ", loss 0.1"),
        )
    rates = {style: gossip_per_s(runs["calm"].of(variant=style, links__loss=0.01), 100) for style in _FEW}
    yield Claim(
        "001-j",
        "loss 0.01 and 5 publications/s: gossip of combined-pull for each of push",
        "about a third",
        rates[COMBINED] / rates[PUSH],
        0.2 <= rates[COMBINED] / rates[PUSH] <= 0.5,
        _settings(runs["calm"]),
        None,
        f"a lost event is looked for during {10} s here; the paper does not say for how long",
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
    best = max(delivered(runs["delivery"].of(variant=each, links__loss=0.1))[0] for each in _FEW)
    yield _claim(
        "ours-delivered-0.1",
        f"{OURS}, delivered at loss 0.1",
        f"more than the paper's best: {shown(best)}",
        share,
        share[0] > best,
        _settings(runs["delivery"]),
    )
    both = delivered(runs["layers"].of(variant=f"nack and {OURS}"))
    alone = delivered(runs["layers"].of(variant="nack"))
    yield _claim(
        "ours-layers",
        f"links that repair themselves and {OURS}, delivered at loss 0.1",
        "at least as much as the links alone",
        both,
        both[0] >= alone[0],
        _settings(runs["layers"]),
        f"links alone: {alone[0]:.6f}",
    )


STUDY = Study("gossip", "Epidemic recovery (paper 001)", _plans, _claims, figures)
