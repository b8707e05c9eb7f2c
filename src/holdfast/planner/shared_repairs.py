"""Records that others notice: a repair goes to everybody who wants the event, whoever asked for it (paper 000).

Who lost an event gets it when he notices, or when somebody else does who lost it as well. What a link loses is lost for
all behind it, and so are the later events that would have told them of it: those who lost an event together also
tend to stay ignorant together. So the ways from a source are put together to a tree, and the chance that nobody
notices is worked out from the leaves up, for each state of a broker: whether the event has come this far, and how many
of the next events have. Exact for independent links and interests where the ways form a tree."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from math import comb, prod

import numpy as np

from holdfast.planner.uniformization import Floats

_LOST, _CAME = 0, 1  # of the event that is to be noticed


@dataclass(frozen=True)
class Row:
    """Subscribers alike, of one broker: what they want of a source, and the losses on the way, by link."""

    source: int
    match: float  # share of the source's events that each of them wants
    interested: float  # how many of them want an event, on average
    losses: dict[int, float]  # in the order of the way

    @property
    def loss(self) -> float:
        return 1 - prod(1 - each for each in self.losses.values())

    @property
    def others(self) -> float:
        """How many of them there are beside one."""
        return max(0.0, self.interested / self.match - 1)


@dataclass
class _BrokerOnPath:
    """A broker on the ways from a source. Arrays go by its state: event lost or come, how many of the next events."""

    loss: float = 0.0  # of the link that leads here
    rows: list[Row] = field(default_factory=list)
    behind: dict[int, "_BrokerOnPath"] = field(default_factory=dict)  # by link
    unnoticed: Floats = field(
        default_factory=lambda: np.empty(0)
    )  # that nobody from here on notices, by the state before
    beside: dict[int, Floats] = field(default_factory=dict)  # by link: that nobody here notices, nor behind another one


def noticed(rows: Sequence[Row], record: int) -> list[float]:
    """For each row, that an event that was lost on its way is noticed by one of those who lost it."""
    sources: dict[int, _BrokerOnPath] = {}
    for row in rows:
        _path(row, sources.setdefault(row.source, _BrokerOnPath()))[-1].rows.append(row)
    for place in sources.values():
        _work_out(place, record)
    return [_noticed(row, sources[row.source], record) if row.loss > 0 else 1.0 for row in rows]


def _path(row: Row, source: _BrokerOnPath) -> list[_BrokerOnPath]:
    """The places on a row's way, the source first; those that nobody has passed before are made."""
    places = [source]
    for link, loss in row.losses.items():
        behind = places[-1].behind
        if link not in behind:
            behind[link] = _BrokerOnPath(loss)
        places.append(behind[link])
    return places


def _work_out(source: _BrokerOnPath, record: int) -> None:
    order = [source]
    for place in order:  # grows as we go: nearer places first
        order += place.behind.values()
    for place in reversed(order):
        links = list(place.behind)
        ahead = [_nobody_here(place, record)]
        for link in links:
            ahead.append(ahead[-1] * place.behind[link].unnoticed)
        after = np.ones_like(ahead[0])
        for at in reversed(range(len(links))):
            place.beside[links[at]] = ahead[at] * after
            after = after * place.behind[links[at]].unnoticed
        place.unnoticed = _over_link(ahead[-1], place.loss)


def _nobody_here(place: _BrokerOnPath, record: int, but: Row | None = None) -> Floats:
    """That nobody at this broker notices; of one row, nobody but one."""
    here = np.ones((2, record + 1))
    for row in place.rows:
        here[_LOST] *= _silent(row, record) ** (row.others + (row is not but))
    return here


def _silent(row: Row, record: int) -> Floats:
    """That one of them who could have noticed does not, by how many of the next events have come to its broker."""
    return np.asarray(1 - row.match * (1 - (1 - row.match) ** np.arange(record + 1)))


def _over_link(behind: Floats, loss: float) -> Floats:
    """The same chances by the state before a link."""
    by_event = np.stack([behind[_LOST], loss * behind[_LOST] + (1 - loss) * behind[_CAME]])
    return by_event @ _thinned(loss, behind.shape[1] - 1).T


@cache
def _thinned(loss: float, most: int) -> Floats:
    """Of so many events (row) that so many (column) pass a link."""
    chances = np.zeros((most + 1, most + 1))
    for come in range(most + 1):
        for passed in range(come + 1):
            chances[come, passed] = comb(come, passed) * (1 - loss) ** passed * loss ** (come - passed)
    return chances


def _noticed(row: Row, source: _BrokerOnPath, record: int) -> float:
    """One of the row's subscribers wanted the event and lost it: only what is on its way differs from the rest."""
    places, links = _path(row, source), list(row.losses)
    own = places[-1]
    now = _nobody_here(own, record, but=row)
    now[_LOST] *= (1 - row.match) ** np.arange(record + 1)
    now[_CAME] = 0.0
    for place in own.behind.values():
        now = now * place.unnoticed
    for place, before, link in zip(reversed(places[1:]), reversed(places[:-1]), reversed(links), strict=True):
        now = before.beside[link] * _over_link(now, place.loss)
    return float(1 - now[_CAME, record] / row.loss)
