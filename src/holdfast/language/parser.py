"""Read a SQL condition and return it in disjunctive form.

There is no syntax tree. NOT is pushed inwards while reading: a negated group reads its ANDs as ORs and takes
each constraint's negation, so what comes out of a group is already a disjunction of filters. Open parentheses
live on a list, not on the call stack, so no input can make us recurse. A problem is noted, the parser
skips to the next AND, OR or parenthesis and goes on, so that all problems are reported at once.
"""

import re
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from math import isinf
from typing import NoReturn

from holdfast.language.constraint import FLIPPED, NEGATED, Constraint, constraint
from holdfast.language.diagnosis import Stumble, diagnose
from holdfast.language.like import pattern_from
from holdfast.language.limits import (
    CONSTRAINTS_MAX,
    DEPTH_MAX,
    FILTERS_MAX,
    NAME_CHARACTERS_MAX,
    PATTERNS_MAX,
    PROBLEMS_MAX,
    TEXT_CHARACTERS_MAX,
)
from holdfast.language.plain import plain_conjunction, shared_name
from holdfast.language.problems import ConditionError, ConditionProblem
from holdfast.language.subscription import Filter, Subscription, subscription_of
from holdfast.language.tokens import END, KEYWORDS, NAME, NUMBER, tokens_of
from holdfast.model.errors import InputError, MisuseError
from holdfast.model.values import INTEGER_MAX, INTEGER_MIN, Kind, Value, canonical, kind_of

Disjunction = list[Filter]

_COMPARISONS = {"=": "=", "<": "<", ">": ">", "<=": "<=", ">=": ">=", "<>": "<>", "!=": "<>"}
_VALUE_STARTS = frozenset("'-+.0123456789")
# A filter is printed at most 16 times as long as the text it comes from: 1e19 as 20 digits, a as a = TRUE.
_SURELY_FITS = TEXT_CHARACTERS_MAX // 16
_SURROGATES = re.compile("[\ud800-\udfff]")
_WORDS = {spelling: word for word in KEYWORDS for spelling in (word, word.lower())}


def parse(text: str) -> Subscription:
    """Read a condition; a ConditionError lists everything that is wrong with it."""
    if not isinstance(text, str):
        raise MisuseError(f"a condition is a string, not {type(text).__name__}")
    if len(text) > TEXT_CHARACTERS_MAX:
        size = f"this condition has {len(text):,} characters; the limit is {TEXT_CHARACTERS_MAX:,}"
        raise ConditionError(text, [ConditionProblem(TEXT_CHARACTERS_MAX, 1, size)])
    if not text.isascii():
        _check_characters(text)
    plain = plain_conjunction(text)
    raw = [plain] if plain is not None else _Parser(text).condition()
    for each in raw:
        if len(each) > PATTERNS_MAX:
            _check_patterns(text, each)
    subscription = subscription_of(raw)
    if len(text) * len(subscription.filters) > _SURELY_FITS:
        _check_canonical_length(text, subscription)
    return subscription


def _check_characters(text: str) -> None:
    """A lone surrogate is half a character: it can be in no event, and cannot be sent, printed or saved."""
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        place = ConditionProblem(
            problem.start, 1, "a lone surrogate, which is not valid text", "was the text cut, or decoded wrongly?"
        )
        raise ConditionError(_SURROGATES.sub("\ufffd", text), [place]) from None


def _check_patterns(text: str, filter_: Filter) -> None:
    counts = Counter(each.attribute for each in filter_ if each.op.endswith("LIKE"))
    for attribute, count in counts.most_common(1):
        if count > PATTERNS_MAX:
            size = f"{attribute} has {count:,} LIKE patterns joined by AND; the limit is {PATTERNS_MAX}"
            raise ConditionError(text, [ConditionProblem(0, len(text), size)])


def _check_canonical_length(text: str, subscription: Subscription) -> None:
    """What we accept we also accept as we print it: that text is what brokers pass on."""
    length = len(str(subscription))
    if length > TEXT_CHARACTERS_MAX:
        limit = f"the limit is {TEXT_CHARACTERS_MAX:,}"
        size = f"written out as ORs of ANDs this condition has {length:,} characters; {limit}"
        raise ConditionError(text, [ConditionProblem(0, len(text), size)])


def as_subscription(given: Subscription | str) -> Subscription:
    """A subscription, or the text of one."""
    return given if isinstance(given, Subscription) else parse(given)


def _word(token: str) -> str | None:
    """The keyword that a token spells, in any case."""
    word = _WORDS.get(token)
    if word is None and len(token) <= 7 and token.upper() in KEYWORDS:
        return token.upper()
    return word


class _Group:
    """What has been read since an opening parenthesis: chains of factors; AND within, OR between."""

    __slots__ = ("chains", "negated", "opened_at")

    def __init__(self, negated: bool, opened_at: int) -> None:
        self.negated = negated
        self.opened_at = opened_at
        self.chains: list[list[Disjunction]] = [[]]

    def close(self) -> Disjunction:
        if self.negated:
            return _all([_any(chain) for chain in self.chains])
        return _any([_all(chain) for chain in self.chains])


def _any(parts: list[Disjunction]) -> Disjunction:
    return parts[0] if len(parts) == 1 else [filter_ for part in parts for filter_ in part]


def _all(parts: list[Disjunction]) -> Disjunction:
    product: Disjunction = [()]
    for part in parts:
        if len(product) == 1 and len(part) == 1:
            product = [product[0] + part[0]]
            continue
        if len(product) * len(part) > FILTERS_MAX:
            raise _TooLargeError(len(product) * len(part), FILTERS_MAX, "filters")
        constraints = len(product) * _size(part) + len(part) * _size(product)
        if constraints > CONSTRAINTS_MAX:
            raise _TooLargeError(constraints, CONSTRAINTS_MAX, "constraints")
        product = [left + right for left in product for right in part]
    return product


def _size(part: Disjunction) -> int:
    """How many constraints, an IN list counting as many as it has values."""
    constraints = [each for filter_ in part for each in filter_]
    return sum(len(each.operand) if type(each.operand) is tuple else 1 for each in constraints)


class _TooLargeError(Exception):
    def __init__(self, size: int, limit: int, what: str) -> None:
        text = f"written out as ORs of ANDs this condition has at least {size:,} {what}"
        super().__init__(f"{text}; the limit is {limit:,}")


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens_of(text)
        self.at = 0
        self.ended = False
        self.groups = [_Group(False, 0)]  # the whole condition, then the parentheses that are open
        self.negated = False  # whether the factor being read stands under an odd number of NOTs
        self.stumbles: list[Stumble] = []

    def condition(self) -> Disjunction:
        while not self.ended:
            try:
                self._factor()
                self._after_factor()
            except Stumble as stumble:
                self._recover(stumble)
            except _TooLargeError as too_large:
                raise ConditionError(self.text, [ConditionProblem(0, len(self.text), str(too_large))]) from None
        if self.stumbles:
            raise diagnose(self.text, self.tokens, self.stumbles)
        return self._close(self.groups[0])

    def _close(self, group: _Group) -> Disjunction:
        try:
            result = group.close()
        except _TooLargeError as too_large:
            raise ConditionError(self.text, [ConditionProblem(0, len(self.text), str(too_large))]) from None
        if len(result) > FILTERS_MAX:
            size = f"this condition has {len(result):,} filters; the limit is {FILTERS_MAX:,}"
            raise ConditionError(self.text, [ConditionProblem(0, len(self.text), size)])
        return result

    def _factor(self) -> None:
        """Read NOTs and opening parentheses, then one test."""
        tokens, groups = self.tokens, self.groups
        negated = groups[-1].negated
        while True:
            token = tokens[self.at]
            if token == "(":
                if len(groups) > DEPTH_MAX:
                    self._stop(f"parentheses are nested more than {DEPTH_MAX} deep")
                groups.append(_Group(negated, self.at))
            elif _word(token) == "NOT":
                negated = not negated
            else:
                break
            self.at += 1
        self.negated = negated
        test = self._test(token)
        groups[-1].chains[-1].append(test)

    def _after_factor(self) -> None:
        """Read closing parentheses, then AND, OR or the end."""
        groups = self.groups
        while True:
            token = self.tokens[self.at]
            word = _word(token)
            if word == "AND":
                self.at += 1
                return
            if word == "OR":
                self.at += 1
                groups[-1].chains.append([])
                return
            if token == ")" and len(groups) > 1:
                self.at += 1
                inner = groups.pop()
                groups[-1].chains[-1].append(inner.close())
                continue
            if token is not END:
                end = "the end of the condition" if len(groups) == 1 else ")"
                self._stop(f"expected AND, OR or {end}")
            if len(groups) > 1:
                self._stop("this parenthesis is never closed", at=groups[-1].opened_at)
            self.ended = True
            return

    def _recover(self, stumble: Stumble) -> None:
        """Note the problem and go on behind the next connective at the same depth."""
        self.stumbles.append(stumble)
        depth, tokens = 0, self.tokens
        while len(self.stumbles) < PROBLEMS_MAX and tokens[self.at] is not END:
            token = tokens[self.at]
            self.at += 1
            if token == "(":
                depth += 1
            elif token == ")":
                depth -= 1
                if depth < 0 and len(self.groups) > 1:
                    self.groups.pop()
                    depth = 0
            elif depth <= 0 and _word(token) in ("AND", "OR"):
                return
        raise diagnose(self.text, tokens, self.stumbles)

    def _stop(self, expected: str, suggestion: str = "", at: int | None = None) -> NoReturn:
        raise Stumble(self.at if at is None else at, expected, suggestion)

    # One test

    def _test(self, token: str) -> Disjunction:
        """One attribute and its test, or TRUE or FALSE."""
        if token[:1] in _VALUE_STARTS or token[-1:] == "'":
            return self._literal_first()
        word = _word(token)
        if word in ("TRUE", "FALSE"):
            if self.tokens[self.at + 1] in _COMPARISONS:
                return self._literal_first()
            self.at += 1
            return [()] if (word == "TRUE") is not self.negated else []
        attribute = self._attribute(token)
        self.at += 1
        sign = self.tokens[self.at]
        op = _COMPARISONS.get(sign)
        if op is not None:
            self.at += 1
            operand = self._value()
            return [(self._comparison(attribute, op, operand),)]
        return self._worded_test(attribute, _word(sign))

    def _literal_first(self) -> Disjunction:
        """5 < price: the same as price > 5."""
        operand = self._value()
        op = _COMPARISONS.get(self.tokens[self.at])
        if op is None:
            self._stop("expected a comparison such as = or < after a value")
        self.at += 1
        attribute = self._attribute(self.tokens[self.at])
        self.at += 1
        return [(self._comparison(attribute, FLIPPED[op], operand),)]

    def _comparison(self, attribute: str, op: str, operand: Value) -> Constraint:
        if self.negated:
            op = NEGATED[op]
        if type(operand) is bool:
            if op not in ("=", "<>"):
                self._stop("TRUE and FALSE have no order; compare them with = or <>", at=self.at - 1)
            return constraint(attribute, op, operand)
        return Constraint(attribute, op, operand)

    def _worded_test(self, attribute: str, word: str | None) -> Disjunction:
        """IS NULL, BETWEEN, IN, LIKE and their negations, or a lone attribute that is TRUE."""
        if word == "IS":
            return self._null_test(attribute)
        flip = word == "NOT"
        if flip:
            self.at += 1
            word = _word(self.tokens[self.at])
        reader: Callable[[str, bool], Disjunction] | None = {
            "BETWEEN": self._between,
            "IN": self._in,
            "LIKE": self._like,
        }.get(word or "")
        if reader is not None:
            self.at += 1
            return reader(attribute, self.negated is not flip)
        if flip:
            self._stop("expected BETWEEN, IN or LIKE after NOT")
        if self.tokens[self.at] in (END, ")") or word in ("AND", "OR"):
            return [(Constraint(attribute, "=", not self.negated),)]
        if self.tokens[self.at] == "(":
            self._stop("conditions have no functions", "compare an attribute with a value", at=self.at - 1)
        self._stop(f"expected a comparison after {attribute}")

    def _null_test(self, attribute: str) -> Disjunction:
        self.at += 1
        is_null = not self.negated
        if _word(self.tokens[self.at]) == "NOT":
            self.at += 1
            is_null = not is_null
        if _word(self.tokens[self.at]) != "NULL":
            self._stop("expected NULL or NOT NULL after IS")
        self.at += 1
        return [(Constraint(attribute, "IS NULL" if is_null else "IS NOT NULL", None),)]

    def _between(self, attribute: str, negated: bool) -> Disjunction:
        low = self._value()
        if _word(self.tokens[self.at]) != "AND":
            self._stop("expected AND between the two ends of BETWEEN")
        self.at += 1
        high = self._value()
        if kind_of(low) is not kind_of(high) or type(low) is bool:
            self._stop("expected two numbers, two strings or two timestamps in BETWEEN", at=self.at - 1)
        if negated:
            return [(Constraint(attribute, "<", low),), (Constraint(attribute, ">", high),)]
        return [(Constraint(attribute, ">=", low), Constraint(attribute, "<=", high))]

    def _in(self, attribute: str, negated: bool) -> Disjunction:
        if self.tokens[self.at] != "(":
            self._stop("expected ( and a list of values after IN")
        values: list[Value] = []
        while True:
            self.at += 1
            values.append(self._value())
            if kind_of(values[-1]) is not kind_of(values[0]):
                first = kind_of(values[0]).value
                self._stop(f"expected a {first}: an IN list holds values of one kind", at=self.at - 1)
            if self.tokens[self.at] == ")":
                break
            if self.tokens[self.at] != ",":
                self._stop("expected , or ) in the IN list")
        self.at += 1
        return [(constraint(attribute, "NOT IN" if negated else "IN", tuple(values)),)]

    def _like(self, attribute: str, negated: bool) -> Disjunction:
        at = self.at
        pattern, escape = self._string("a pattern such as 'abc%' after LIKE"), None
        if _word(self.tokens[self.at]) == "ESCAPE":
            self.at += 1
            escape = self._string("a character in quotes after ESCAPE")
            if len(escape) != 1:
                self._stop("expected exactly one character after ESCAPE", at=self.at - 1)
        try:
            canonical_pattern = pattern_from(pattern, escape)
        except ValueError:
            problem = f"in this pattern {escape} must stand before %, _ or {escape}"
            self._stop(problem, at=at)
        return [(constraint(attribute, "NOT LIKE" if negated else "LIKE", canonical_pattern),)]

    # Names and values

    def _attribute(self, token: str) -> str:
        if token[:1] == '"' and len(token) > 2 and token[-1] == '"':
            name = token[1:-1].replace('""', '"')
        elif NAME.fullmatch(token) and _word(token) is None:
            name = token
        else:
            self._stop("expected an attribute's name")
        if len(name) > NAME_CHARACTERS_MAX:
            self._stop(f"this name has {len(name)} characters; the limit is {NAME_CHARACTERS_MAX}")
        return shared_name(name) or name

    def _string(self, expected: str) -> str:
        token = self.tokens[self.at]
        if token[:1] != "'" or len(token) < 2 or token[-1] != "'":
            self._stop(f"expected {expected}")
        self.at += 1
        return token[1:-1].replace("''", "'")

    def _value(self) -> Value:
        token = self.tokens[self.at]
        first = token[:1]
        if first == "'" and token[-1] == "'" and len(token) > 1:
            self.at += 1
            text = token[1:-1]
            return text.replace("''", "'") if "'" in text else text
        if first in "-+" and first:
            self.at += 1
            return self._number(self.tokens[self.at], -1 if first == "-" else 1)
        if first in ".0123456789" and first:
            return self._number(token, 1)
        word = _word(token)
        if word in ("TRUE", "FALSE"):
            self.at += 1
            return word == "TRUE"
        if token[:9].upper() == "TIMESTAMP" and token[-1] == "'":
            return self._timestamp(token)
        self._stop("expected a value: a number, a string in single quotes, TRUE, FALSE or TIMESTAMP '…'")

    def _number(self, token: str, sign: int) -> Value:
        if not NUMBER.fullmatch(token):
            self._stop("expected a number")
        number: int | float = sign * float(token)
        if isinf(number):
            self._stop("this number is too large for a double")
        if token.isdecimal():
            number = sign * int(token.lstrip("0") or "0")  # int() refuses thousands of zeros
            if not INTEGER_MIN <= number <= INTEGER_MAX:
                double = f"write it as a double: {float(token):.17g}"
                self._stop("this integer does not fit in 64 bits", double)
        self.at += 1
        return canonical(number)

    def _timestamp(self, token: str) -> Value:
        text = token[token.index("'") + 1 : -1]
        try:
            moment = canonical(datetime.fromisoformat(text))
        except (ValueError, InputError):
            self._stop("expected a date and time as in TIMESTAMP '2026-01-31 09:30:00'")
        self.at += 1
        assert kind_of(moment) is Kind.TIMESTAMP
        return moment
