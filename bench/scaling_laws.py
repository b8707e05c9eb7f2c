"""How fast something grows: slopes fitted to what was measured, beside those of closed forms at the same sizes.

A slope is the exponent of the power law that fits best, by least squares over the logarithms, with an interval of 95 %.
A closed form is fitted at the same sizes as the measurement: where a constant part is as large as what grows, both have
a slope below the one that holds in the end.
"""

from collections.abc import Callable, Mapping, Sequence
from math import log, sqrt
from typing import Any, NamedTuple

from bench.scaling_cells import MECHANISMS, Size

# The 97.5 % point of Student's t, by degrees of freedom.
_T = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306}
_LINK_BEATS = 4  # a heartbeat a second in each direction, sent by one broker and received by another
_DEGREE = 4  # links of a broker in the graphs that are no trees
_WATCHED_BEATS = 5  # heartbeats a second where failures are to be noticed soon


class Slope(NamedTuple):
    slope: float
    low: float
    high: float


def fitted(sizes: Sequence[float], values: Sequence[float]) -> Slope | None:
    """None where there is nothing to fit."""
    if len(sizes) < 3 or min(values) <= 0:
        return None
    x, y = [log(each) for each in sizes], [log(each) for each in values]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    spread = sum((each - mean_x) ** 2 for each in x)
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread
    errors = [b - mean_y - slope * (a - mean_x) for a, b in zip(x, y, strict=True)]
    freedom = len(x) - 2
    half = _T[min(freedom, 8)] * sqrt(sum(each**2 for each in errors) / freedom / spread)
    return Slope(slope, slope - half, slope + half)


class ClosedForm(NamedTuple):
    mechanism: str
    axis: str
    role: str
    quantity: str
    law: str
    value: Callable[[Size], float]
    why: str


def _links(size: Size) -> int:
    return size.brokers - 1


def _clients(size: Size) -> int:
    return size.subscribers + size.publishers


def _matching(size: Size) -> float:
    """Events a second that a subscriber wants."""
    return size.publishers * size.rate / size.conditions


CLOSED_FORMS = [
    *[
        ClosedForm(name, "rate", "publisher", "messages", law, value, why)
        for name, law, value, why in (
            ("best effort", "2 + r", lambda size: 2 + size.rate, "a heartbeat each way, and its events"),
            ("retransmission", "2 + 2 r", lambda size: 2 + 2 * size.rate, "each event is acknowledged"),
            ("srm", "2 + r", lambda size: 2 + size.rate, "records travel on events: bytes grow, messages do not"),
        )
    ],
    *[
        ClosedForm("best effort", axis, "subscriber", "messages", "2 + P r / C", lambda size: 2 + _matching(size), why)
        for axis, why in (
            ("publishers", "an event has one of C patterns"),
            ("conditions", "the more patterns, the fewer events have a given one"),
            ("brokers", "where its broker is does not matter"),
            ("subscribers", "nor who else subscribes"),
        )
    ],
    *[
        ClosedForm(name, axis, "broker", "control", law, value, why)
        for name, law, value, why in (
            (
                "best effort",
                "(4 (n - 1) + 2 (S + P)) / n",
                lambda size: (_LINK_BEATS * _links(size) + 2 * _clients(size)) / size.brokers,
                "heartbeats on links and with clients: a digest in each, whatever the table's size",
            ),
            (
                "replication",
                "(8 (n - 1) + 2 (S + P)) / n",
                lambda size: (2 * _LINK_BEATS * _links(size) + 2 * _clients(size)) / size.brokers,
                "each broker tells its neighbours besides who its neighbours are",
            ),
            (
                "destinations",
                "(4 m + 2 (S + P)) / n, m = 2 n links",
                lambda size: _LINK_BEATS * _DEGREE / 2 + 2 * _clients(size) / size.brokers,
                "as on a tree, with more links",
            ),
            (
                "multipath",
                "(24 m + 2 (S + P)) / n",
                lambda size: _LINK_BEATS * (1 + _WATCHED_BEATS) * _DEGREE / 2 + 2 * _clients(size) / size.brokers,
                "five more heartbeats a second, to notice a failure soon",
            ),
        )
        for axis in ("brokers", "subscribers")
    ],
    *[
        ClosedForm(name, "brokers", "broker", "setup_messages", "n", lambda size: size.brokers, why)
        for name, why in (
            ("destinations", "link states are flooded: n brokers, over all links, so n links in all and n a broker"),
            ("multipath", "the same"),
            ("hybrid", "the same"),
        )
    ],
    *[
        ClosedForm(name, "conditions", "broker", "setup_bytes", "C", lambda size: size.conditions, why)
        for name, why in (
            ("best effort", "each condition crosses each link once, unless another covers it; none does here"),
            ("push", "every condition is told to every broker, covered or not"),
        )
    ],
    *[
        ClosedForm(name, "subscribers", "broker", "setup_bytes", "S + P", _clients, why)
        for name, why in (
            ("recovery", "each client has a condition of its own, by which requests and repairs find it"),
            ("best effort", "as many conditions as before: only a broker's own clients tell it more"),
        )
    ],
    ClosedForm(
        "recovery",
        "publishers",
        "subscriber",
        "control",
        "2 + 2.5 P f",
        lambda size: 2 + 2.5 * size.publishers,
        "a digest every 0.4 s of each publisher that it follows; f is the share that it does",
    ),
    ClosedForm(
        "srm", "rate", "publisher", "bytes", "r", lambda size: size.rate, "a record of ten filters on each event"
    ),
]


def laws(
    slopes: Mapping[tuple[str, str], Mapping[str, Any]], sizes_of: Callable[[str, str], list[Size]]
) -> list[dict[str, Any]]:
    """Each closed form with its slope and the measured one."""
    rows = []
    for form in CLOSED_FORMS:
        sizes = sizes_of(form.mechanism, form.axis)
        expected = fitted([getattr(size, form.axis) for size in sizes], [form.value(size) for size in sizes])
        measured = slopes.get((form.mechanism, form.axis), {}).get(f"{form.role}_{form.quantity}")
        if expected is not None and measured is not None:
            words = {name: getattr(form, name) for name in ("mechanism", "axis", "role", "quantity", "law", "why")}
            rows.append({**words, "expected": round(expected.slope, 3), "measured": measured})
    assert all(form.mechanism in MECHANISMS for form in CLOSED_FORMS)
    return rows
