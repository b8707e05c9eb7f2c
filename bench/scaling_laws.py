"""How fast something grows: slopes fitted to what was measured, beside those of closed forms at the same sizes.

A slope is the exponent of the power law that fits best, by least squares over the logarithms, with an interval of 95 %.
A closed form is fitted at the same sizes as the measurement: where a constant part is as large as what grows, both have
a slope below the one that holds in the end. Some closed forms were written after the first measurement, so each is also
tried at a size that nobody looked at when it was written.
"""

from collections.abc import Callable, Mapping, Sequence
from math import exp, log, sqrt
from typing import Any, NamedTuple

from bench.scaling_cells import END_US, MECHANISMS, SETUP_US, Size

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


def _different(size: Size) -> float:
    """Conditions that somebody has."""
    return size.conditions * (1 - (1 - 1 / size.conditions) ** size.subscribers)


def _told(size: Size) -> float:
    greetings = (12 * _links(size) + 8 * _clients(size)) / size.brokers
    return 2 * _different(size) * _links(size) / size.brokers + greetings


def _flooded(size: Size) -> float:
    n, many = size.brokers, size.conditions
    of_a_broker = many * (1 - (1 - 1 / many) ** (size.subscribers / n))
    return 2 * (_DEGREE + of_a_broker) * (_DEGREE * n - n + 1)


def _followed(size: Size) -> float:
    """The share of publishers of which a subscriber has had an event, on average over the time that is measured."""
    events = size.rate / size.conditions * (END_US - SETUP_US) / 1e6
    return 1 - (1 - exp(-events)) / events


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
        ClosedForm("destinations", axis, "broker", "setup_messages", "2 (4 + D) (2 m - n + 1)", _flooded, why)
        for axis, why in (
            (
                "brokers",
                "each of a broker's four links, and each of the D different conditions of its clients, makes a new "
                "link state, and flooding takes one over every link, and back over those that close a circle",
            ),
            ("subscribers", "each condition that is new to its broker is told to all brokers"),
        )
    ],
    *[
        ClosedForm("best effort", axis, "broker", "setup_messages", "2 C (n - 1) / n + h", _told, why)
        for axis, why in (
            ("brokers", "each condition that nothing covers crosses each link; h: greetings and two heartbeats"),
            ("conditions", "as many as there are"),
            ("subscribers", "equal conditions of many subscribers count once"),
        )
    ],
    ClosedForm(
        "recovery",
        "subscribers",
        "broker",
        "setup_messages",
        "2 (C + S + P) (n - 1) / n + h",
        lambda size: _told(size) + 2 * _clients(size) * _links(size) / size.brokers,
        "each client has a condition of its own, by which requests and repairs find it",
    ),
    *[
        ClosedForm(
            "recovery",
            axis,
            "subscriber",
            "control",
            "2 + 2.5 P f",
            lambda size: 2 + 2.5 * size.publishers * _followed(size),
            why,
        )
        for axis, why in (
            ("publishers", "a digest every 0.4 s of each publisher that it follows"),
            ("conditions", "f: the share of publishers of which an event has come so far; it becomes 1"),
        )
    ],
]


ELSEWHERE = {
    "best effort": Size(100, 500, 60, 3, 10),
    "destinations": Size(80, 400, 50, 3, 4),
    "multipath": Size(80, 400, 50, 3, 4),
    "retransmission": Size(50, 200, 50, 12, 9),
    "recovery": Size(50, 200, 50, 12, 4),
    "srm": Size(50, 200, 50, 12, 9),
    "replication": Size(100, 500, 60, 3, 10),
}


def laws(
    slopes: Mapping[tuple[str, str], Mapping[str, Any]],
    cells_of: Callable[[str, str], list[tuple[Size, Mapping[str, Any]]]],
    elsewhere: Mapping[str, Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Each closed form with its slope and the measured one, and how many times its value was measured."""
    rows = []
    for form in CLOSED_FORMS:
        cells = cells_of(form.mechanism, form.axis)
        values = [form.value(size) for size, _ in cells]
        expected = fitted([getattr(size, form.axis) for size, _ in cells], values)
        measured = slopes.get((form.mechanism, form.axis), {}).get(f"{form.role}_{form.quantity}")
        if expected is not None and measured is not None:
            words = {name: getattr(form, name) for name in ("mechanism", "axis", "role", "quantity", "law", "why")}
            times = [cell[form.role][form.quantity] / value for (_, cell), value in zip(cells, values, strict=True)]
            slope = {"expected": round(expected.slope, 3), "measured": measured}
            rows.append({**words, **slope, "least": round(min(times), 3), "most": round(max(times), 3)})
            if form.mechanism in elsewhere:
                value = form.value(ELSEWHERE[form.mechanism])
                rows[-1]["elsewhere"] = round(elsewhere[form.mechanism][form.role][form.quantity] / value, 3)
    assert all(form.mechanism in MECHANISMS for form in CLOSED_FORMS)
    return rows
