"""Expressions: what a condition works out from an event when comparing one attribute with a constant does not say it.

An expression is built from the bottom up, and each step adds what is asked of it later: its canonical text, which is
its identity; a function that works it out, so that nothing is interpreted while matching; the kind of its value where
that is known; and the attributes that it cannot do without. Its value is None when it is unknown. What has no
attribute in it is worked out at once.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from holdfast.language.arithmetic import OPERATIONS, comparing, equal, negative, number
from holdfast.language.constraint import name_text
from holdfast.language.like import like_test, pattern_text
from holdfast.language.regexp import searching
from holdfast.model.event import Attributes
from holdfast.model.values import Kind, Value, canonical, kind_of, literal, utc

Run = Callable[[Attributes], Value | None]

# How tightly a text binds: an operand that binds more loosely than its place wants stands in parentheses.
OR, AND, NOT, TEST, SUM, PRODUCT, SIGN, ATOM = range(8)
_LEVELS = {"+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "%": PRODUCT}
_NOTHING: frozenset[str] = frozenset()


class Expression:
    __slots__ = (
        *(
            "blind",
            "children",
            "constant",
            "depth",
            "kind",
            "level",
            "name",
            "names",
            "needs",
            "patterns",
            "run",
            "size",
        ),
        "text",
    )

    text: str
    run: Run
    kind: Kind | None
    """Of its value, unless it is unknown; None where only an event can tell."""
    names: frozenset[str]
    """The attributes that it looks at."""
    needs: frozenset[str]
    """Those without which it is unknown."""
    name: str | None
    """The attribute, when it is nothing else."""
    size: int
    depth: int
    patterns: frozenset[str]
    """The regular expressions in it."""
    blind: bool
    """Whether it cannot be worked out here, because a package is missing."""

    def __init__(
        self,
        text: str,
        run: Run,
        *,
        level: int = ATOM,
        kind: Kind | None = None,
        children: Sequence["Expression"] = (),
        needs: frozenset[str] | None = None,
        name: str | None = None,
        patterns: frozenset[str] = _NOTHING,
        blind: bool = False,
    ) -> None:
        self.text, self.run, self.level, self.kind, self.children, self.name = text, run, level, kind, children, name
        if children:
            self.names = _union(each.names for each in children)
            self.needs = _strictly(children) if needs is None else needs
            self.size = 1 + sum([each.size for each in children])
            self.depth = 1 + max([each.depth for each in children])
            self.patterns = patterns.union(*[each.patterns for each in children])
            self.blind = blind or any([each.blind for each in children])
        else:
            self.names = self.needs = _NOTHING if name is None else frozenset((name,))
            self.size = self.depth = 1
            self.patterns, self.blind = patterns, blind
        self.constant = not self.names

    @property
    def value(self) -> Value | None:
        """Of a constant; None when it is unknown."""
        return self.run({})

    @property
    def untested(self) -> bool:
        """Whether it is taken for true, because it cannot be worked out here."""
        return self.run is _passed

    @property
    def unknown(self) -> bool:
        """Whether it is unknown whatever the event holds."""
        return self.constant and self.value is None

    def at(self, level: int) -> str:
        """The text as it stands where something of this level is wanted."""
        return self.text if self.level >= level else f"({self.text})"

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[object, ...]:
        from holdfast.language.parser import expression_of  # noqa: PLC0415 - the parser builds on this file

        return expression_of, (self.text,)


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return _NOTHING.union(*sets)


def _strictly(children: Sequence[Expression]) -> frozenset[str]:
    """One operand that is unknown makes the whole unknown."""
    return _union(each.needs for each in children)


def _loosely(children: Sequence[Expression]) -> frozenset[str]:
    """All operands have to be unknown for that."""
    return frozenset.intersection(*(each.needs for each in children))


def settled(made: Expression, *operands: Expression) -> Expression:
    """What needs no event is worked out; one strict operand that is always unknown makes the whole so."""
    if any(each.unknown for each in operands):
        return _never(made)
    if made.constant:
        value = made.value
        return made if value is None else constant(value)
    return made


def _never(made: Expression) -> Expression:
    """The same, known to be unknown whatever the event holds."""
    return Expression(made.text, lambda event: None, level=made.level, kind=made.kind)


def strict(text: str, run: Run, kind: Kind, operands: Sequence[Expression]) -> Expression:
    """A function's value, unknown where an argument is."""
    return settled(Expression(text, run, kind=kind, children=tuple(operands)), *operands)


def constant(value: Value) -> Expression:
    value = canonical(value)
    text = literal(value)
    return Expression(text, lambda event: value, level=SIGN if text[0] == "-" else ATOM, kind=kind_of(value))


def attribute(name: str) -> Expression:
    known = _attributes.get(name)
    if known is None:
        if len(_attributes) >= _ATTRIBUTES_MAX:
            _attributes.clear()
        known = _attributes[name] = Expression(name_text(name), lambda event: event.get(name), name=name)
    return known


_ATTRIBUTES_MAX = 4_096  # kept, because conditions name the same few over and over: about 4 MB
_attributes: dict[str, Expression] = {}


def negation(operand: Expression) -> Expression:
    """-x"""
    inner = operand.run

    def run(event: Attributes) -> Value | None:
        found = number(inner(event))
        return None if found is None else negative(found)

    # A constant is left in place only where its negative leaves 64 bits; without parentheses it would be one literal.
    text = f"-({operand})" if operand.constant else f"-{operand.at(ATOM)}"
    made = Expression(text, run, level=SIGN, kind=Kind.NUMBER, children=(operand,))
    return settled(made, operand)


def arithmetic(sign: str, left: Expression, right: Expression) -> Expression:
    operate, first, second, level = OPERATIONS[sign], left.run, right.run, _LEVELS[sign]

    def run(event: Attributes) -> Value | None:
        a, b = first(event), second(event)
        if type(a) is not int:
            a = number(a)
        if type(b) is not int:
            b = number(b)
        return None if a is None or b is None else operate(a, b)

    text = f"{left.at(level)} {sign} {right.at(level + 1)}"
    return settled(Expression(text, run, level=level, kind=Kind.NUMBER, children=(left, right)), left, right)


def comparison(op: str, left: Expression, right: Expression) -> Expression:
    compared, first, second = comparing(op), left.run, right.run
    text = f"{left.at(SUM)} {op} {right.at(SUM)}"
    if right.constant:
        value = right.value

        def run(event: Attributes) -> Value | None:  # most are such, and it saves a call
            return compared(first(event), value)
    else:

        def run(event: Attributes) -> Value | None:
            return compared(first(event), second(event))

    made = settled(_test(text, run, (left, right)), left, right)
    apart = None not in (left.kind, right.kind) and left.kind is not right.kind
    return _never(made) if apart else made


def _test(text: str, run: Run, children: Sequence[Expression], needs: frozenset[str] | None = None) -> Expression:
    return Expression(text, run, level=TEST, kind=Kind.BOOLEAN, children=children, needs=needs)


def member(operand: Expression, listed: Sequence[Expression], negated: bool) -> Expression:
    """x IN (a, b): true when one is equal, unknown when none is and one of the comparisons is unknown."""
    inner = operand.run
    values = frozenset(each.value for each in listed if each.constant and not each.unknown)
    kind = kind_of(next(iter(values))) if values else None  # type: ignore[arg-type]
    others = [each.run for each in listed if not each.constant or each.unknown]

    def run(event: Attributes) -> Value | None:
        found = inner(event)
        if found is None or found != found:
            return None
        if type(found) is datetime:
            found = utc(found)
        unsure = False
        if values:
            if kind_of(found) is not kind:
                unsure = True
            elif found in values:
                return not negated
        for other in others:
            same = equal(found, other(event))
            if same:
                return not negated
            unsure = unsure or same is None
        return None if unsure else negated

    text = f"{operand.at(SUM)} {'NOT IN' if negated else 'IN'} ({', '.join(each.at(SUM) for each in listed)})"
    return settled(_test(text, run, (operand, *listed), operand.needs), operand)


def quantified(op: str, operand: Expression, every: bool, of: Expression) -> Expression:
    """x = ANY(tags), x <> ALL(tags): the comparison with each element, joined by OR or by AND.

    So of an empty list nothing is asked, not even whether the operand is known: ANY is FALSE and ALL is TRUE.
    """
    compared, inner, listed = comparing(op), operand.run, of.run

    def run(event: Attributes) -> Value | None:
        found = listed(event)
        if type(found) is not list:
            return None
        value, unsure = inner(event) if found else None, False
        for each in found:
            same = compared(value, each)
            if same is not every and same is not None:
                return same
            unsure = unsure or same is None
        return None if unsure else every

    text = f"{operand.at(SUM)} {op} {'ALL' if every else 'ANY'}({of})"
    return settled(_test(text, run, (operand, of), of.needs))


def like(operand: Expression, pattern: str, negated: bool) -> Expression:
    """`pattern` is canonical, as `pattern_from` gives it."""
    inner, test = operand.run, like_test(pattern)

    def run(event: Attributes) -> Value | None:
        found = inner(event)
        return test(found) is not negated if type(found) is str else None

    text, escaped = pattern_text(pattern)
    word = "NOT LIKE" if negated else "LIKE"
    text = f"{operand.at(SUM)} {word} {literal(text)}" + (" ESCAPE '!'" if escaped else "")
    made = settled(_test(text, run, (operand,)), operand)
    return made if operand.kind in (None, Kind.STRING) else _never(made)


def regexp(operand: Expression, pattern: str, blind: bool) -> Expression:
    """REGEXP_LIKE(s, 'pattern'); `blind` where RE2 is not there to work it out."""
    inner = operand.run

    def run(event: Attributes) -> Value | None:
        found = inner(event)
        return searching(pattern)(found) if type(found) is str else None

    text = f"REGEXP_LIKE({operand.at(SUM)}, {literal(pattern)})"
    made = Expression(text, run, kind=Kind.BOOLEAN, children=(operand,), patterns=frozenset((pattern,)), blind=blind)
    return made if blind else settled(made, operand)


def untested(test: Expression) -> Expression:
    """A test that cannot be worked out here, as one that passes whatever has the attributes that it needs."""
    given = test.children
    return Expression(test.text, _passed, level=test.level, kind=test.kind, children=given, needs=test.needs)


def _passed(event: Attributes) -> Value | None:
    return True


def null_test(operand: Expression, negated: bool) -> Expression:
    inner = operand.run
    text = f"{operand.at(SUM)} IS {'NOT NULL' if negated else 'NULL'}"
    return settled(_test(text, lambda event: (inner(event) is None) is not negated, (operand,), _NOTHING))


def _truth(operand: Expression) -> Callable[[Attributes], bool | None]:
    inner = operand.run
    if operand.kind is Kind.BOOLEAN:
        return inner  # type: ignore[return-value]

    def run(event: Attributes) -> bool | None:
        found = inner(event)
        return found if type(found) is bool else None

    return run


def inverse(operand: Expression) -> Expression:
    """NOT x"""
    truth = _truth(operand)

    def run(event: Attributes) -> Value | None:
        found = truth(event)
        return None if found is None else not found

    made = Expression(f"NOT {operand.at(SUM)}", run, level=NOT, kind=Kind.BOOLEAN, children=(operand,))
    return settled(made, operand)


def joined(word: str, operands: Sequence[Expression]) -> Expression:
    """AND or OR of two or more."""
    level, decisive = (AND, False) if word == "AND" else (OR, True)
    truths = [_truth(each) for each in operands]

    def run(event: Attributes) -> Value | None:
        unsure = False
        for truth in truths:
            found = truth(event)
            if found is decisive:
                return decisive
            unsure = unsure or found is None
        return None if unsure else not decisive

    text = f" {word} ".join(each.at(level + 1) for each in operands)
    made = Expression(text, run, level=level, kind=Kind.BOOLEAN, children=tuple(operands), needs=_loosely(operands))
    return settled(made)


def truth(operand: Expression) -> Expression:
    """A lone expression as a test: `flags.urgent`, or a function that gives a boolean."""
    return operand if operand.kind is Kind.BOOLEAN else comparison("=", operand, constant(True))
