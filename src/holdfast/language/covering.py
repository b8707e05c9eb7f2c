"""Which subscription covers which, and which advertisement can meet which subscription.

Attributes are independent, so one filter covers another when each of its constraints holds for every value
that the other leaves possible on that attribute. `covers` never says yes wrongly; it is complete for
conjunctions of =, IN, ranges and prefixes. `overlaps` never says no wrongly. Two disjunctions so long that comparing
each filter with each would take seconds, and patterns and texts so many, get the safe answer: not covered, and
overlapping.
"""

from itertools import chain, groupby

from holdfast.language.constraint import Constraint
from holdfast.language.domain import Domain
from holdfast.language.limits import PATTERN_WORK_MAX
from holdfast.language.parser import as_subscription
from holdfast.language.pattern_work import work_between
from holdfast.language.subscription import Filter, Subscription, apart, canonical_filter, necessary

_PAIRS_MAX = 4_096  # filters compared, each with each: a quarter of a second at worst, and a broker waits for it


def covers(wide: Subscription | str, narrow: Subscription | str) -> bool:
    """Whether `wide` matches everything that `narrow` matches; both may be texts."""
    wide, narrow = as_subscription(wide), as_subscription(narrow)
    if _takes_long(wide, narrow):
        return wide == narrow
    return all(any(filter_covers(each, inner) for each in wide.filters) for inner in narrow.filters)


def overlaps(advertisement: Subscription | str, subscription: Subscription | str) -> bool:
    """Whether one event could satisfy both; both may be texts."""
    advertisement, subscription = as_subscription(advertisement), as_subscription(subscription)
    if _takes_long(advertisement, subscription):
        return True
    return any(
        canonical_filter((*one, *other)) is not None for one in advertisement.filters for other in subscription.filters
    )


def _takes_long(one: Subscription, other: Subscription) -> bool:
    if len(one.filters) * len(other.filters) > _PAIRS_MAX:
        return True
    return work_between(chain.from_iterable(one.filters), chain.from_iterable(other.filters)) > PATTERN_WORK_MAX


def filter_covers(wide: Filter, narrow: Filter) -> bool:
    if len(wide) == 0:
        return True
    (wide, wanted), (_, tests) = apart(wide), apart(narrow)
    if any(each not in tests for each in wanted):
        return False
    constraints: dict[str, list[Constraint]] = {}
    for each in necessary(narrow):
        constraints.setdefault(each.attribute, []).append(each)
    for name, group in groupby(wide, key=lambda each: each.attribute):
        left = Domain(constraints.get(name, ()))
        if not all(map(left.inside, group)):
            return False
    return True
