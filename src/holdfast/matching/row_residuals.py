"""Expressions asked of events in rows: of the pairs that the image found, those are kept that match."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from holdfast.language.subscription import Filter
from holdfast.matching.kernels import Ints
from holdfast.matching.residuals import Residuals
from holdfast.model.event import Attributes
from holdfast.model.values import Value, as_value


class RowResiduals:
    """What is left to ask of some subscriptions, by number."""

    def __init__(self, subscriptions: Mapping[int, Sequence[Filter]], size: int) -> None:
        self.numbers = sorted(subscriptions)
        self._residuals: Residuals[int] = Residuals()
        self._asked = np.zeros(size, bool)
        for number in self.numbers:
            self._residuals.add(number, subscriptions[number])
            self._asked[number] = True

    @property
    def names(self) -> Iterable[str]:
        return self._residuals.names

    def kept(
        self, rows: Ints, subscriptions: Ints, events_of: Callable[[Ints], Sequence[Attributes]]
    ) -> tuple[Ints, Ints]:
        """The pairs that match; `events_of` gives the events of some rows, with what expressions look at."""
        keep = ~self._asked[subscriptions]
        asked = np.flatnonzero(~keep)
        if asked.size == 0:
            return rows, subscriptions
        distinct, places = np.unique(rows[asked], return_inverse=True)
        events = events_of(distinct)
        tests = self._residuals.tests
        answers = [
            tests[number](events[place])
            for number, place in zip(subscriptions[asked].tolist(), places.tolist(), strict=True)
        ]
        keep[asked] = answers
        return rows[keep], subscriptions[keep]


def events_in(columns: Mapping[str, pa.Array], rows: Ints) -> list[Attributes]:
    chosen = pa.array(rows)
    values = [_plain(each.take(chosen), name) for name, each in columns.items()]
    if not values:
        return [{}] * len(rows)
    return [dict(zip(columns, each, strict=True)) for each in zip(*values, strict=True)]


def _plain(array: pa.Array, name: str) -> list[Value | None]:
    """As events have them, but that a list of a table may be of any length."""
    if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        return [as_value(each, name) for each in array.to_pylist()]
    return [None if each is None else [as_value(element, name) for element in each] for each in array.to_pylist()]
