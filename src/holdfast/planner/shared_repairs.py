"""Records that others notice: a repair goes to everybody who wants the event, whoever asked for it (paper 000).

Who lost an event gets it when he notices, or when somebody else does who lost it as well. On shared links events are
lost for all behind them, so those who lost it together are counted from the links that their ways have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log1p, prod

from holdfast.planner.records import detection_probability

_NEARLY_SURE = 1 - 1e-12  # as far as a logarithm is concerned
_ROWS_MAX = 400  # of one source: beyond, each is taken alone, as pairs would be too many


@dataclass(frozen=True)
class Row:
    """Subscribers alike, of one broker: what they want of a source, and the losses on the way, by link."""

    source: int
    match: float  # share of the source's events that each of them wants
    interested: float  # how many of them want an event, on average
    losses: dict[int, float]

    @property
    def loss(self) -> float:
        return 1 - prod(1 - each for each in self.losses.values())


def noticed(rows: Sequence[Row], record: int) -> list[float]:
    """For each row, that an event that was lost on its way is noticed by one of those who lost it."""
    alone = [detection_probability(row.match, row.loss, record) for row in rows]
    by_source: dict[int, list[int]] = {}
    for at, row in enumerate(rows):
        by_source.setdefault(row.source, []).append(at)
    found = list(alone)
    for members in by_source.values():
        for at in members if len(members) <= _ROWS_MAX else ():
            if alone[at] < 1 and rows[at].loss > 0:
                found[at] = 1 - (1 - alone[at]) * _nobody_else(rows, members, at, alone)
    return found


def _nobody_else(rows: Sequence[Row], members: Sequence[int], at: int, alone: Sequence[float]) -> float:
    """That none of the others who lost it notices it, as if each did so by himself."""
    logs = 0.0
    for other in members:
        many = rows[other].interested - (rows[at].match if other == at else 0.0)
        lost = max(0.0, many) * lost_too(rows[at], rows[other])
        logs += lost * log1p(-min(alone[other], _NEARLY_SURE))
    return exp(logs)


def lost_too(one: Row, other: Row) -> float:
    """P(lost on the other's way | lost on the one's), links being independent."""
    both = prod(1 - loss for loss in {**one.losses, **other.losses}.values())
    return (1 - (1 - one.loss) - (1 - other.loss) + both) / one.loss
