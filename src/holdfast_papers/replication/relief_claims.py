"""What paper 003 says about replicas that come because of load, and go; its numbers for load are with congestion.

It names several replicas ("the next hop with the shortest queue"), violated service level agreements as the cause, and
transient failures that pass. The only number is the overhead afterwards: zero. The rest are targets of ours.
"""

from collections.abc import Iterator
from statistics import fmean

from holdfast_papers.claims import Claim
from holdfast_papers.estimates import extreme, ratio
from holdfast_papers.study import Runs
from holdfast_papers.verdicts import at_least, at_most, less_than

_LOAD = "30 s of 2.5 times what one broker can do, a tenth before and after"


def relief_claims(runs: Runs) -> Iterator[Claim]:
    seeds = len(runs.by_seed())
    settings = f"{_LOAD}; by queue and by delay; seeds 1 to {seeds}"
    every = runs.by_seed()
    yield Claim(
        "003-after",
        "messages that carry no event, when replicas were released, for those before they came",
        "1: zero overhead after replication completes",
        ratio(*([fmean(each.column(f"messages_{when}")) for each in every] for when in ("after", "before"))),
        at_most(1),
        "paper",
        settings,
        "before, there is what neighbours tell of neighbours, and with a limit for relief an echo at every heartbeat",
    )
    for promise in ("complete", "ordered"):
        broken = [row for row in runs.rows if row[promise] is not None]
        yield Claim(
            f"003-release-{promise}",
            f"one to three replicas that come and go, re-ordering: share of runs with strong {promise} delivery",
            "kept is wanted",
            extreme(1 - len(broken) / len(runs.rows), len(runs.rows)),
            at_least(1, "every"),
            "ours",
            settings,
            f"for example {broken[0][promise]} (seed {broken[0]['seed']})" if broken else "",
        )
    left = [row["replicas"] - row["released"] for row in runs.rows]
    yield Claim(
        "003-release",
        "replicas that are still there a minute after the load",
        "0 is wanted",
        extreme(max(left), len(left)),
        at_most(0, "every"),
        "ours",
        settings,
        "the paper says that a broker may be congested for a time, and not what becomes of its replica",
    )
    yield Claim(
        "003-several",
        "delay that 99 % stay below in the second half of the load, with up to three replicas for that with one",
        "less than 1 is wanted",
        ratio(*([fmean(each.column("late_ms")) for each in runs.of(relief=name).by_seed()] for name in _BY_QUEUE)),
        less_than(1),
        "ours",
        f"{_LOAD}; by queue; seeds 1 to {seeds}",
        "the paper has several next hops and no number for them",
    )


_BY_QUEUE = "queue, three", "queue, one"
