"""Why an event matches a subscription, or which filter came closest and what stopped it."""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.language.constraint import IS_TRUE, Constraint, name_text
from holdfast.language.expression import Expression
from holdfast.language.subscription import Filter, Subscription, apart, filter_text, holds
from holdfast.model.event import Attributes, attributes_of
from holdfast.model.values import Kind, Value, canonical, kind_of, literal

_PARTS_MAX = 12  # of an expression whose values are told; a longer list is not read
_CHARACTERS_MAX = 200  # of a text that is shown
_ELEMENTS_MAX = 32  # of a list


@dataclass(frozen=True)
class Obstacle:
    """A constraint that did not hold, and why, in words; or an expression that did, and its values."""

    constraint: Constraint
    why: str


@dataclass(frozen=True)
class Explanation:
    matches: bool
    filter: Filter | None  # the one that matched, or that came closest; None when there is none at all
    obstacles: tuple[Obstacle, ...]
    workings: tuple[Obstacle, ...] = ()  # of the filter that matched: what its expressions came to

    def __str__(self) -> str:
        if self.filter is None:
            return "does not match: the condition can never be true"
        shown = filter_text(self.filter)
        lines = [f"matches: {shown}" if self.matches else f"does not match; closest: {shown}"]
        lines += [f"  {each.constraint}: {each.why}" for each in (*self.workings, *self.obstacles)]
        return "\n".join(lines)


def explain(subscription: Subscription, event: Mapping[str, object]) -> Explanation:
    attributes = attributes_of(event)
    closest: Explanation | None = None
    for each in subscription.filters:
        obstacles = tuple(Obstacle(c, _why(c, attributes)) for c in each if not holds((c,), attributes))
        if not obstacles:
            workings = tuple(Obstacle(c, _why(c, attributes)) for c in apart(each)[1])
            return Explanation(True, each, (), workings)
        if closest is None or len(obstacles) < len(closest.obstacles):
            closest = Explanation(False, each, obstacles)
    return closest or Explanation(False, None, ())


def _why(constraint: Constraint, attributes: Attributes) -> str:
    if constraint.op == IS_TRUE:
        return _worked_out(constraint.operand, attributes)
    name, found = name_text(constraint.attribute), attributes.get(constraint.attribute)
    if found is None:
        return f"{name} is missing"
    if found != found and constraint.op != "IS NULL":  # NaN
        return f"{name} is NaN, and a comparison with NaN is never true"
    wanted = constraint.kind
    if wanted is not None and kind_of(found) is not wanted:
        hint = _type_hint(found, wanted)
        return f"{name} is the {kind_of(found).value} {_shown(found)}, not a {wanted.value}{hint}"
    return f"{name} is {_shown(found)}"


def _worked_out(test: Expression, attributes: Attributes) -> str:
    """What the parts of an expression came to, the operands of the test first; constants speak for themselves."""
    told: dict[str, str] = {}
    level = list(test.children)
    while level and len(told) < _PARTS_MAX:
        for part in level:
            if not part.constant and part.text not in told and len(told) < _PARTS_MAX:
                told[part.text] = _value_of(part, attributes)
        level = [inner for part in level for inner in part.children]
    unknown = test.run(attributes) is None
    return f"{'unknown, as ' if unknown else ''}{', '.join(told.values())}"


def _value_of(part: Expression, attributes: Attributes) -> str:
    found = part.run(attributes)
    if found is None:
        return f"{part} is {'missing' if part.name is not None else 'unknown'}"
    return f"{part} is {_shown(canonical(found))}"


def _shown(value: Value) -> str:
    """A value as a condition spells it; the beginning of one that nobody reads to the end."""
    if type(value) is str and len(value) > _CHARACTERS_MAX:
        return f"{literal(value[:_CHARACTERS_MAX])}… ({len(value):,} characters)"
    if type(value) is list and len(value) > _ELEMENTS_MAX:
        return f"{literal(value[:_ELEMENTS_MAX])[:-1]}, …] ({len(value):,} elements)"
    return literal(value)


def _type_hint(found: Value, wanted: Kind) -> str:
    if wanted is Kind.TIMESTAMP and type(found) is str:
        return " (send a timestamp, or compare with a string)"
    if kind_of(found) is Kind.TIMESTAMP and wanted is Kind.STRING:
        return f" (compare with {literal(found)})"
    return ""
