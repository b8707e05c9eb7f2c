"""Read a SQL condition and return it in disjunctive form.

There is no tree of conditions. NOT is pushed inwards while reading: a negated group reads its ANDs as ORs and takes
each constraint's negation, so what comes out of a group is already a disjunction of filters. Open parentheses
live on a list, not on the call stack, so they cannot make us recurse; operands (`reading`) have their own limit. A
problem is noted, the parser skips to the next AND, OR or parenthesis and goes on, so that all are reported at once.
"""

import re
from collections import Counter

from holdfast.language import expression as made
from holdfast.language.bounded_cache import Remembering
from holdfast.language.constraint import CONTAINS, FLIPPED, IS_TRUE, NEGATED, Constraint, constraint
from holdfast.language.diagnosis import Stumble, diagnose
from holdfast.language.expression import TEST, Expression
from holdfast.language.limits import (
    CONSTRAINTS_MAX,
    DEPTH_MAX,
    EXPRESSIONS_SIZE_MAX,
    FILTERS_MAX,
    PATTERN_WORK_MAX,
    PATTERNS_MAX,
    PROBLEMS_MAX,
    REGEXPS_PROGRAM_MAX,
    TEXT_CHARACTERS_MAX,
)
from holdfast.language.pattern_work import work_within
from holdfast.language.plain import plain_conjunction
from holdfast.language.problems import ConditionError, ConditionProblem
from holdfast.language.reading import COMPARISONS, OPERATORS, Reader, word_of
from holdfast.language.regexp import program_size
from holdfast.language.single_test import Test
from holdfast.language.subscription import Filter, Subscription, subscription_of
from holdfast.language.tokens import END
from holdfast.model.errors import MisuseError

Disjunction = list[Filter]

_LITERAL_STARTS = frozenset("'.0123456789")
_GOES_ON = frozenset(("IS", "IN", "LIKE", "BETWEEN", "NOT"))  # words that make what stands before them an operand
# A filter is printed at most 16 times as long as the text it comes from: 1e19 as 20 digits, a as a = TRUE.
_SURELY_FITS = TEXT_CHARACTERS_MAX // 16
_LONG = 100  # characters: shorter ones are seldom large, and read again in microseconds
_MANY = 16  # filters: the canonical text of fewer is read in a millisecond
_CONSTRAINT_BYTES = 160  # with its operand and its share of the tuples around it
_SURROGATES = re.compile("[\ud800-\udfff]")


def parse(text: str) -> Subscription:
    """Read a condition; a ConditionError lists everything that is wrong with it."""
    return _read(text, blind=False)


def parse_to_pass_on(text: str) -> Subscription:
    """The same for who passes events on to others that test again: a test that needs a missing package is passed."""
    return _read(text, blind=True)


def _read(text: str, blind: bool) -> Subscription:
    if not isinstance(text, str):
        raise MisuseError(f"a condition is a string, not {type(text).__name__}")
    if len(text) > TEXT_CHARACTERS_MAX:
        size = f"this condition has {len(text):,} characters; the limit is {TEXT_CHARACTERS_MAX:,}"
        raise ConditionError(text, [ConditionProblem(TEXT_CHARACTERS_MAX, 1, size)])
    return _read_anew((text, blind))[0] if len(text) < _LONG else _remembered((text, blind))


def _read_anew(given: tuple[str, bool]) -> tuple[Subscription, int]:
    """What a text says, and how many bytes that takes, roughly."""
    text, blind = given
    if not text.isascii():
        _check_characters(text)
    plain = plain_conjunction(text)
    raw = [plain] if plain is not None else _Parser(text, blind).condition()
    for each in raw:
        if len(each) > PATTERNS_MAX:
            _check_patterns(text, each)
    if "LIKE" in text.upper():
        _check_pattern_work(text, raw)
    if "REGEXP_LIKE" in text.upper():
        _check_regexps(text, raw)
    subscription = subscription_of(raw)
    count = len(subscription.filters)
    canonical = str(subscription) if count > _MANY or len(text) * count > _SURELY_FITS else ""
    if len(canonical) > TEXT_CHARACTERS_MAX:
        # What we accept we also accept as we print it: that text is what brokers pass on.
        limit = f"the limit is {TEXT_CHARACTERS_MAX:,}"
        long = f"written out as ORs of ANDs this condition has {len(canonical):,} characters; {limit}"
        raise ConditionError(text, [ConditionProblem(0, len(text), long)])
    size = 2 * len(text) + _CONSTRAINT_BYTES * sum(map(len, subscription.filters))
    if count > _MANY:
        for way in (blind,) if "REGEXP_LIKE" in canonical else (True, False):  # otherwise both readers read the same
            _remembered.keep((canonical, way), Subscription(subscription.filters), size + len(canonical))
    return subscription, size


# A condition passes several readers on its way, of a client of MQTT five, most of them as its canonical text. That may
# be a hundred times as long as the text it was written as, and takes each of them tens of milliseconds.
_remembered: Remembering[tuple[str, bool], Subscription] = Remembering(_read_anew, bytes_max=2**23)


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


def _check_pattern_work(text: str, raw: Disjunction) -> None:
    work = 0
    for each in raw:
        work += work_within(each) if len(each) > 1 else 0
        if work > PATTERN_WORK_MAX:
            problem = "too many texts and LIKE patterns of one attribute are joined by AND"
            why = f"each pattern is tried on each text: over {PATTERN_WORK_MAX:,} characters"
            raise ConditionError(text, [ConditionProblem(0, len(text), problem, why)])


def _check_regexps(text: str, raw: Disjunction) -> None:
    tests = [each.operand for filter_ in raw for each in filter_ if each.op == IS_TRUE and not each.operand.blind]
    size = sum(map(program_size, frozenset[str]().union(*(each.patterns for each in tests))))
    if size > REGEXPS_PROGRAM_MAX:
        limit = f"the limit is {REGEXPS_PROGRAM_MAX:,}"
        problem = f"the regular expressions of this condition compile to {size:,} instructions; {limit}"
        raise ConditionError(text, [ConditionProblem(0, len(text), problem)])


def as_subscription(given: Subscription | str) -> Subscription:
    """A subscription, or the text of one."""
    return given if isinstance(given, Subscription) else parse(given)


def expression_of(text: str) -> Expression:
    """An expression from its canonical text."""
    (((_, _, found),),) = parse_to_pass_on(text).filters
    assert isinstance(found, Expression)
    return found


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
    constraints = 0
    for part in parts:
        constraints = len(product) * _size(part) + len(part) * constraints
        if len(product) == 1 and len(part) == 1:
            product = [product[0] + part[0]]
            continue
        if len(product) * len(part) > FILTERS_MAX:
            raise _TooLargeError(len(product) * len(part), FILTERS_MAX, "filters")
        if constraints > CONSTRAINTS_MAX:
            raise _TooLargeError(constraints, CONSTRAINTS_MAX, "constraints")
        product = [left + right for left in product for right in part]
    return product


def _size(part: Disjunction) -> int:
    """How many constraints, a list counting as many as it has values and an expression as it has parts."""
    size = 0
    for filter_ in part:
        size += len(filter_)
        for _, op, operand in filter_:
            if type(operand) is tuple:
                size += len(operand) - 1
            elif op == IS_TRUE:
                size += operand.size - 1
    return size


class _TooLargeError(Exception):
    def __init__(self, size: int, limit: int, what: str) -> None:
        text = f"written out as ORs of ANDs this condition has at least {size:,} {what}"
        super().__init__(f"{text}; the limit is {limit:,}")


class _Parser(Reader):
    def __init__(self, text: str, blind: bool = False) -> None:
        super().__init__(text, blind)
        self.ended = False
        self.groups = [_Group(False, 0)]  # the whole condition, then the parentheses that are open
        self.negated = False  # whether the factor being read stands under an odd number of NOTs
        self.stumbles: list[Stumble] = []
        self._asked_parts = 0  # of the expressions that were read so far
        self.operands = _opening_operands(self.tokens) if "(" in self.tokens else frozenset()

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
            if token == "(" and self.at not in self.operands:
                if len(groups) > DEPTH_MAX:
                    self.stop(f"parentheses are nested more than {DEPTH_MAX} deep")
                groups.append(_Group(negated, self.at))
            elif word_of(token) == "NOT":
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
            word = word_of(token)
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
                self.stop(f"expected AND, OR or {end}")
            if len(groups) > 1:
                self.stop("this parenthesis is never closed", at=groups[-1].opened_at)
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
            elif depth <= 0 and word_of(token) in ("AND", "OR"):
                return
        raise diagnose(self.text, tokens, self.stumbles)

    # One test

    def _test(self, token: str) -> Disjunction:
        """What stands between two connectives, most often a name, a sign and a literal."""
        tokens, at = self.tokens, self.at
        op = COMPARISONS.get(tokens[at + 1]) if token is not END else None
        if (
            op is not None
            and tokens[at + 2][:1] in _LITERAL_STARTS
            and (tokens[at + 3] in (END, ")") or word_of(tokens[at + 3]) is not None)
            and token[0] not in _LITERAL_STARTS
            and token[-1] != "'"
            and word_of(token) is None
        ):
            attribute = self.attribute(token)
            self.at += 2
            return [(Constraint(attribute, NEGATED[op] if self.negated else op, self.value()),)]
        test = self.test()
        return self._disjunction(test, self.negated is not test.negated)

    def _disjunction(self, test: Test, negated: bool) -> Disjunction:
        """Tests of one attribute become constraints, which can be indexed; all others expressions."""
        left, right = test.left, test.right
        if test.each:
            op, every = NEGATED[test.form] if negated else test.form, (test.each == "ALL") is not negated
            return self._looked_into(made.quantified(op, left, every, right[0]))
        match test.form:
            case "TRUE":
                return self._lone(self.lone(test), negated)
            case "BETWEEN":
                low, high = right
                if negated:
                    return self._compared("<", left, low) + self._compared(">", left, high)
                return _all([self._compared(">=", left, low), self._compared("<=", left, high)])
            case "IS NULL":
                if left.name is not None:
                    return [(Constraint(left.name, "IS NOT NULL" if negated else "IS NULL", None),)]
                return self._asked(made.null_test(left, negated))
            case "LIKE":
                if left.name is not None:
                    return [(constraint(left.name, "NOT LIKE" if negated else "LIKE", test.pattern),)]
                return self._asked(made.like(left, test.pattern, negated))
            case "IN":
                if test.values:
                    return [(constraint(left.name or "", "NOT IN" if negated else "IN", test.values),)]
                if left.name is not None and all(each.constant and not each.unknown for each in right):
                    values = tuple(each.value for each in right)
                    return [(constraint(left.name, "NOT IN" if negated else "IN", values),)]
                return self._asked(made.member(left, right, negated))
        return self._compared(NEGATED[test.form] if negated else test.form, left, right[0])

    def _lone(self, found: Expression, negated: bool) -> Disjunction:
        if found.level == TEST and len(found.children) == 1 and found == made.null_test(found.children[0], True):
            return self._disjunction(Test("IS NULL", found.children[0]), not negated)  # EXISTS(x)
        if found.level == TEST and len(found.children) == 2:
            wanted, listed = found.children
            if found == made.quantified("=", wanted, False, listed):  # CONTAINS(tags, x)
                return self._looked_into(made.quantified("<>", wanted, True, listed) if negated else found)
        return self._compared("=", found, made.constant(not negated))

    def _compared(self, op: str, left: Expression, right: Expression) -> Disjunction:
        if (left.constant, left.text) > (right.constant, right.text) and not right.constant:
            op, left, right = FLIPPED[op], right, left  # 5 < x as x > 5, and b > a as a < b: two spellings of one test
        if left.name is not None and right.constant and not right.unknown:
            return [(constraint(left.name, op, right.value),)]
        return self._asked(made.comparison(op, left, right))

    def _looked_into(self, test: Expression) -> Disjunction:
        """A constant looked for in a list is a constraint; any other test of its elements an expression."""
        wanted, listed = test.children
        if listed.name is not None and wanted.constant and not wanted.unknown:
            if test == made.quantified("=", wanted, False, listed):
                return [(Constraint(listed.name, CONTAINS, wanted.value),)]
        return self._asked(test)

    def _asked(self, test: Expression) -> Disjunction:
        """An expression that has to be true. One that is always unknown stays, to be warned of."""
        if test.constant and not test.unknown:
            return [()] if test.value else []
        self._asked_parts += test.size
        if self._asked_parts > EXPRESSIONS_SIZE_MAX:
            self.stop(f"the expressions of a condition have at most {EXPRESSIONS_SIZE_MAX:,} parts", at=self.at - 1)
        return [(Constraint(test.text, IS_TRUE, self.bounded(made.untested(test) if test.blind else test)),)]


def _opening_operands(tokens: list[str]) -> frozenset[int]:
    """Where a parenthesis opens an operand and not a group: an operator follows where it closes."""
    found, opened = [], []
    for at, token in enumerate(tokens):
        if token == "(":
            opened.append(at)
        elif token == ")" and opened:
            begun, after = opened.pop(), tokens[at + 1]
            if after in OPERATORS or after in COMPARISONS or word_of(after) in _GOES_ON:
                found.append(begun)
    return frozenset(found)
