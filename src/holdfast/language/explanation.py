"""Why an event matches a subscription, or which filter came closest and what stopped it."""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.language.constraint import Constraint, name_text
from holdfast.language.subscription import Filter, Subscription, filter_text
from holdfast.model.event import attributes_of
from holdfast.model.values import Kind, Value, kind_of, literal


@dataclass(frozen=True)
class Obstacle:
    """A constraint that did not hold, and why, in words."""

    constraint: Constraint
    why: str


@dataclass(frozen=True)
class Explanation:
    matches: bool
    filter: Filter | None  # the one that matched, or that came closest; None when there is none at all
    obstacles: tuple[Obstacle, ...]

    def __str__(self) -> str:
        if self.filter is None:
            return "does not match: the condition can never be true"
        shown = filter_text(self.filter)
        if self.matches:
            return f"matches: {shown}"
        lines = [f"does not match; closest: {shown}"]
        lines += [f"  {each.constraint}: {each.why}" for each in self.obstacles]
        return "\n".join(lines)


def explain(subscription: Subscription, event: Mapping[str, object]) -> Explanation:
    attributes = attributes_of(event)
    closest: Explanation | None = None
    for each in subscription.filters:
        found = [(c, attributes.get(c.attribute)) for c in each]
        obstacles = tuple(Obstacle(c, _why(c, value)) for c, value in found if not c.holds(value))
        if not obstacles:
            return Explanation(True, each, ())
        if closest is None or len(obstacles) < len(closest.obstacles):
            closest = Explanation(False, each, obstacles)
    return closest or Explanation(False, None, ())


def _why(constraint: Constraint, found: Value | None) -> str:
    name = name_text(constraint.attribute)
    if found is None:
        return f"{name} is missing"
    if found != found and constraint.op != "IS NULL":  # NaN
        return f"{name} is NaN, and a comparison with NaN is never true"
    wanted = constraint.kind
    if wanted is not None and kind_of(found) is not wanted:
        hint = _type_hint(found, wanted)
        return f"{name} is the {kind_of(found).value} {literal(found)}, not a {wanted.value}{hint}"
    return f"{name} is {literal(found)}"


def _type_hint(found: Value, wanted: Kind) -> str:
    if wanted is Kind.TIMESTAMP and type(found) is str:
        return " (send a timestamp, or compare with a string)"
    if kind_of(found) is Kind.TIMESTAMP and wanted is Kind.STRING:
        return f" (compare with {literal(found)})"
    return ""
