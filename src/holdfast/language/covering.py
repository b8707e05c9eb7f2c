"""Which subscription covers which, and which advertisement can meet which subscription.

Attributes are independent, so one filter covers another when each of its constraints holds for every value
that the other leaves possible on that attribute. `covers` never says yes wrongly; it is complete for
conjunctions of =, IN, ranges and prefixes. `overlaps` never says no wrongly.
"""

from itertools import groupby

from holdfast.language.domain import Domain
from holdfast.language.subscription import Filter, Subscription, canonical_filter


def covers(wide: Subscription, narrow: Subscription) -> bool:
    """Whether `wide` matches everything that `narrow` matches."""
    return all(any(filter_covers(each, inner) for each in wide.filters) for inner in narrow.filters)


def overlaps(advertisement: Subscription, subscription: Subscription) -> bool:
    """Whether one event could satisfy both."""
    return any(
        canonical_filter((*one, *other)) is not None for one in advertisement.filters for other in subscription.filters
    )


def filter_covers(wide: Filter, narrow: Filter) -> bool:
    if len(wide) == 0:
        return True
    domains = {name: Domain(group) for name, group in groupby(narrow, key=lambda each: each.attribute)}
    anything = Domain()
    return all(domains.get(each.attribute, anything).inside(each) for each in wide)
