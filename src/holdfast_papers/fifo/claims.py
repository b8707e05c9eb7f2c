"""What paper 002 says, row by row, and what our estimators promise."""

from collections.abc import Iterator, Mapping
from functools import partial
from math import isnan
from statistics import fmean

from holdfast_papers.claims import Claim, untested
from holdfast_papers.estimates import Estimate, estimate, extreme, ratio, ratio_of_sums
from holdfast_papers.fifo import activemq
from holdfast_papers.fifo.comparison import ESTIMATORS, TARGETS, at_equal_violations
from holdfast_papers.fifo.law import LEVEL, WINDOW
from holdfast_papers.fifo.live import throughputs
from holdfast_papers.fifo.networks import DEFAULT, IN_TURN, LAW, NONE, RULE, RULE_TARGET, TARGET
from holdfast_papers.fifo.overtaking import SCENARIOS
from holdfast_papers.study import Runs
from holdfast_papers.verdicts import Allowed, about, at_least, at_most, less_than, more_than

_CONFORMAL = ("age-conformal", "late-conformal")  # these steer the share of violations to the target
_BOUND = "bernstein"  # and this one stays below it; the others promise no rate
_SMALL = 0.1  # a "small sacrifice" is no more than a tenth
_MUCH_LESS = 0.5  # and "much lower" is less than half


def claims(runs: Mapping[str, Runs]) -> Iterator[Claim]:
    yield from _violations(runs["parallel"])
    yield from _removed(runs["parallel"])
    yield from _law(runs["law"])
    yield from _clocks(runs["clocks"])
    yield from _live(runs["live"])
    yield from _activemq(runs["activemq"], runs["live"])
    yield from _not_tested()
    yield from _promises(runs["comparison"])
    yield from _equal(runs["comparison"])


# The paper's network ---------------------------------------------------------------------------------------------


def _long(runs: Runs, variant: str, metric: str) -> list[float]:
    """By seed: what a long run has more than a short one with the same beginning, in which the latches learn."""
    mine = runs.of(variant=variant)
    warm_s = min(row["duration_s"] for row in mine.rows)
    long = Runs([row for row in mine.rows if row["duration_s"] != warm_s])
    short = mine.of(duration_s=warm_s)
    return [a - b for a, b in zip(long.column(metric), short.column(metric), strict=True)]


def _settings(runs: Runs) -> str:
    seconds = sorted({row["duration_s"] for row in runs.rows})
    return (
        "8 brokers of 16 servers, 50 publishers, 350 subscribers, loss 0.01, "
        f"from {seconds[0]:g} to {seconds[-1]:g} s, seeds 1 to {len(runs.by_seed())}"
    )


def _violations(runs: Runs) -> Iterator[Claim]:
    settings = _settings(runs)
    found = _long(runs, NONE, "fifo_violations")
    yield Claim(
        "002-violations",
        "best effort: violations of order in a run",
        "nearly 173,000",
        estimate(found),
        more_than(0),
        "paper",
        settings,
        "the slides tell neither rates nor duration, so that some is all that can be asked for; of the deliveries it "
        f"is {sum(found) / sum(_long(runs, NONE, 'delivered')):.3f}",
    )
    yield Claim(
        "002-cause",
        "best effort, brokers as quick that match one event after the other: violations of order in a run",
        "none: parallel matching is the cause",
        extreme(max(_long(runs, IN_TURN, "fifo_violations")), len(found)),
        at_most(0, "every"),
        "paper",
        settings,
    )


def _remaining(runs: Runs, variant: str) -> Estimate:
    return ratio_of_sums(_long(runs, variant, "fifo_violations"), _long(runs, NONE, "fifo_violations"))


def _removed(runs: Runs) -> Iterator[Claim]:
    settings = _settings(runs)
    for id_, variant, words, paper in (
        ("law", LAW, f"the paper's law, {TARGET:g} of the violations may remain", "up to 0.995"),
        ("rule", RULE, f"the paper's law and rule, {RULE_TARGET:g} of all events may violate", "up to 0.995"),
        ("ours", DEFAULT, f"{DEFAULT}, {TARGET:g} of the violations may remain", "0.995 is wanted"),
    ):
        yield Claim(
            f"002-removed-{id_}",
            f"{words}: share of the violations that is removed",
            paper,
            _remaining(runs, variant).through(lambda share: 1 - share),
            at_least(0.995),
            "ours" if variant == DEFAULT else "paper",
            settings,
            _added_note(runs, variant),
        )
    yield Claim(
        "002-rule",
        f"the paper's law and rule: share of all events that violate the order, {RULE_TARGET:g} allowed",
        f"at most {RULE_TARGET:g}",
        ratio_of_sums(_long(runs, RULE, "fifo_violations"), _long(runs, RULE, "delivered")),
        at_most(RULE_TARGET),
        "paper",
        settings,
        "without it the share is "
        f"{sum(_long(runs, NONE, 'fifo_violations')) / sum(_long(runs, NONE, 'delivered')):.3f}",
    )
    usual_ms = fmean(_delays_ms(runs))
    for id_, variant, words in (("law", LAW, "the paper's law"), ("rule", RULE, "the paper's law and rule")):
        yield Claim(
            f"002-delay-{id_}",
            f"{words}: mean added delay, for each of the median delay without",
            "a small sacrifice",
            _added_ms(runs, variant).through(partial(_share_of, usual_ms)),
            at_most(_SMALL),
            "paper",
            settings,
            f"small is taken as a tenth; {_added_note(runs, variant)}, to {usual_ms:.1f} ms",
        )


def _share_of(whole: float, part: float) -> float:
    return part / whole


def _delays_ms(runs: Runs) -> list[float]:
    return [value / 1_000 for value in runs.of(variant=NONE).column("delay_us.p50")]


def _added_ms(runs: Runs, variant: str) -> Estimate:
    held = [each / 1_000 for each in _long(runs, variant, "held_total_us")]
    return ratio_of_sums(held, _long(runs, variant, "delivered"))


def _added_note(runs: Runs, variant: str) -> str:
    return f"adds {_added_ms(runs, variant).value:.2f} ms to the mean delay"


# The law, the clocks, throughput ---------------------------------------------------------------------------------


def _law(runs: Runs) -> Iterator[Claim]:
    windows = int(runs.rows[0]["windows"])
    settings = f"the same network, {windows} subscribers with {WINDOW} differences each, seeds 1 to {len(runs.rows)}"
    distance, critical = (fmean(runs.column(each)) for each in ("distance", "critical"))
    yield Claim(
        "002-fit",
        f"the fitted law of the delay difference: share of the windows in which a test at {LEVEL:g} rejects it",
        "a hypoexponential law fits",
        estimate(runs.column("rejected")),
        at_most(2 * LEVEL),
        "paper",
        settings,
        f"a law that fits is rejected in {LEVEL:g}, and it counts as fitting up to twice that; Kolmogorov and "
        f"Smirnov's distance is {distance:.3f} on average, rejected from {critical:.3f} on",
    )
    yield Claim(
        "002-bound",
        f"share of the delay differences beyond Bernstein's bound for {LEVEL:g}",
        "a bound",
        estimate(runs.column("beyond_bound")),
        at_most(LEVEL),
        "paper",
        settings,
    )
    yield Claim(
        "002-close",
        "time between two events that get swapped, for each of the time between neighbours",
        "published close to each other",
        estimate(runs.column("swapped_gap")),
        less_than(1),
        "paper",
        settings,
        f"{fmean(runs.column('swapped')):.3f} of all neighbours are swapped",
    )


def _clocks(runs: Runs) -> Iterator[Claim]:
    yield Claim(
        "002-clocks",
        "violations with a subscriber's clock five hours away, less those with the publisher's own",
        "0: clock differences cancel out",
        extreme(max(map(abs, _differences(runs))), len(runs.rows)),
        at_most(0, "every"),
        "paper",
        f"{SCENARIOS[0].name}, the paper's law, {runs.rows[0]['publications']:,} publications, "
        f"seeds 1 to {len(runs.rows)}",
    )


def _differences(runs: Runs) -> list[float]:
    return [a - b for a, b in zip(runs.column("away"), runs.column("same"), strict=True)]


def _live(runs: Runs) -> Iterator[Claim]:
    settings = f"a line of 3 live brokers, 4 subscribers, {len(runs.by_seed())} rounds; by processor time"
    without = throughputs(runs, "none")
    for order, words, allowed in (
        ("fifo", "a small sacrifice", at_least(1 - _SMALL)),
        ("strict", "ours, for comparison: no violation at all", None),
    ):
        yield Claim(
            f"002-throughput-{order}",
            f"live, order {order}: throughput for each of that without order",
            words,
            ratio(throughputs(runs, order), without),
            allowed,
            "ours" if allowed is None else "paper",
            settings,
            f"without {fmean(without):,.0f} deliveries for each second of a processor, all brokers and clients together"
            + ("; small is taken as a tenth" if order == "fifo" else ""),
        )


def _activemq(runs: Runs, live: Runs) -> Iterator[Claim]:
    ids = "002-activemq", "002-activemq-throughput"
    words = "violations of order with ActiveMQ", "throughput of ActiveMQ for each of best effort's"
    if not runs.rows:
        for id_, claim, paper in zip(ids, words, ("0", "much less"), strict=True):
            yield untested(id_, claim, paper, f"when this ran, {activemq.missing() or 'there was no ActiveMQ'}")
        return
    topics, queues = runs.of(kind="topic"), runs.of(kind="queue")
    rounds = len(topics.rows)
    settings = f"{activemq.EVENTS:,} persistent events, one broker, {rounds} rounds"
    yield Claim(
        ids[0],
        words[0],
        "0",
        extreme(max(topics.column("violations")), rounds),
        at_most(0, "every"),
        "paper",
        f"{settings}; {activemq.SUBSCRIBERS} durable subscribers of a topic, a thread each",
        f"delivered {topics.total('delivered') / topics.total('owed'):.4g} of what is owed",
    )
    yield Claim(
        "002-activemq-threads",
        f"the same where {activemq.THREADS} threads share one subscriber's events: violations an event",
        "not said",
        ratio(queues.column("violations"), queues.column("taken")),
        None,
        "paper",
        f"{settings}; a queue with {activemq.THREADS} consumers",
        "the server keeps the order for each consumer, not for the four together",
    )
    yield Claim(
        ids[1],
        words[1],
        "much less",
        ratio(activemq.throughputs(runs), throughputs(live, "none")),
        less_than(_MUCH_LESS),
        "paper",
        f"{settings}; by processor time, server and clients, beside ours without order",
        f"much less is taken as a half; ActiveMQ {fmean(activemq.throughputs(runs)):,.0f} deliveries for each second "
        "of a processor; ours is written in Python, passes three brokers and writes a trace",
    )


def _not_tested() -> Iterator[Claim]:
    yield untested(
        "002-recovered",
        "share of the lost events that is recovered in very unstable networks",
        "more than 0.7",
        "paper 000 says the same of the same protocol: its study has the row",
    )


# Ours ------------------------------------------------------------------------------------------------------------


def _model_settings(runs: Runs, scenario: str) -> str:
    row = runs.rows[0]
    return f"{scenario}: Monte-Carlo of {row['publications']:,} publications, seeds 1 to {len(runs.by_seed())}"


def _promise(estimator: str, target: float) -> tuple[str, Allowed | None]:
    if estimator in _CONFORMAL:
        return "within 10 % of it is wanted", about(target)
    if estimator == _BOUND:
        return "at most that is wanted", at_most(target)
    return "promises no rate", None


def _promises(runs: Runs) -> Iterator[Claim]:
    for scenario in SCENARIOS:
        for target in TARGETS:
            for estimator in ESTIMATORS:
                mine = runs.of(scenario=scenario.name, estimator=estimator)
                words, allowed = _promise(estimator, target)
                added = fmean(mine.column(f"added@{target:g}"))
                yield Claim(
                    f"ours-{estimator}-{target:g}-{scenario.name}",
                    f"{estimator}, target {target:g}: share of the events noticed missing that still violate the order",
                    words,
                    estimate(mine.column(f"share@{target:g}")),
                    allowed,
                    "ours",
                    _model_settings(runs, scenario.name),
                    f"adds {added:.2f} ms to the mean delay",
                )


def _equal(runs: Runs) -> Iterator[Claim]:
    """Our default beside each other estimator, where both leave the same share of the violations."""
    for scenario in SCENARIOS:
        for target in TARGETS:
            for other in (each for each in ESTIMATORS if each != DEFAULT):
                found = at_equal_violations(runs, scenario.name, DEFAULT, other, target)
                never = any(map(isnan, found))
                yield Claim(
                    f"ours-equal-{other}-{target:g}-{scenario.name}",
                    f"added delay of {DEFAULT}, target {target:g}, for each of {other}'s at the same violations",
                    "at most 1 is wanted",
                    estimate(found),
                    at_most(1),
                    "ours",
                    _model_settings(runs, scenario.name),
                    f"no target makes {other} leave this share in every run" if never else "",
                )
