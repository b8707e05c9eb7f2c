"""Read operands and tests: everything between AND, OR and NOT.

What is read is an `Expression`, and what a test asks of it a `Test`; the parser decides what becomes of both. Operators
bind as in SQL: signs, then * / %, then + and -, then comparisons. Parentheses within an operand may hold a whole
condition, `(a > b) = urgent`, whose value is TRUE, FALSE or unknown.
"""

import difflib
import re
from datetime import datetime
from math import isinf
from typing import NoReturn

from holdfast.language import expression as made
from holdfast.language import regexp
from holdfast.language.diagnosis import Stumble
from holdfast.language.expression import PRODUCT, SIGN, SUM, Expression
from holdfast.language.functions import FUNCTIONS, UNITS, Function, difference
from holdfast.language.like import longest_gapped, pattern_from
from holdfast.language.limits import EXPRESSION_DEPTH_MAX, EXPRESSION_SIZE_MAX, LIKE_GAPPED_MAX, NAME_CHARACTERS_MAX
from holdfast.language.plain import plain_list, shared_name
from holdfast.language.single_test import Test, as_expression
from holdfast.language.tokens import END, KEYWORDS, NAME, NUMBER, tokens_of
from holdfast.model.errors import InputError
from holdfast.model.extras import how_to_install
from holdfast.model.values import INTEGER_MAX, INTEGER_MIN, Kind, Value, canonical, kind_of

COMPARISONS = {"=": "=", "<": "<", ">": ">", "<=": "<=", ">=": ">=", "<>": "<>", "!=": "<>"}
OPERATORS = {"+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "%": PRODUCT}
_WORDS = {spelling: word for word in KEYWORDS for spelling in (word, word.lower())}
_WANTED = "expected a value: a number, a string in single quotes, TRUE, FALSE, TIMESTAMP '…' or an attribute"
_CONSTANTS = re.compile(r"\[\s*(['0-9+.-]|.*,)")
_NO_LISTS = "there are no lists of constants; write 5 = ANY(x) or x IN (1, 2); such a name goes in double quotes"
_UNORDERED = "TRUE and FALSE have no order; compare them with = or <>"
_INSTALL = how_to_install("regex")
_QUANTIFIERS = ("ANY", "ALL")  # words only between a comparison and a parenthesis
_SUFFIXES = ("L", "l", "D", "d")  # of Java's literals: a long and a double, which change nothing


def word_of(token: str) -> str | None:
    """The keyword that a token spells, in any case."""
    word = _WORDS.get(token)
    if word is None and len(token) <= 7 and token.upper() in KEYWORDS:
        return token.upper()
    return word


class Reader:
    def __init__(self, text: str, blind: bool = False) -> None:
        self.text = text
        self.blind = blind  # take tests that cannot be worked out here
        self.tokens = tokens_of(text)
        self.at = 0
        self._nested = 0

    def stop(self, expected: str, suggestion: str = "", at: int | None = None) -> NoReturn:
        raise Stumble(self.at if at is None else at, expected, suggestion)

    # Tests ---------------------------------------------------------------------------------------

    def test(self) -> Test:
        left = self.operand()
        token = self.tokens[self.at]
        op = COMPARISONS.get(token)
        if op is not None:
            return self._comparison(op, left)
        word = word_of(token)
        if word == "IS":
            return self._null_test(left)
        negated = word == "NOT"
        if negated:
            self.at += 1
            word = word_of(self.tokens[self.at])
        match word:
            case "BETWEEN":
                return self._between(left, negated)
            case "IN":
                return self._in(left, negated)
            case "LIKE":
                return self._like(left, negated)
        if negated:
            self.stop("expected BETWEEN, IN or LIKE after NOT")
        if word not in ("AND", "OR") and token not in (END, ")", ",") and left.kind is not Kind.BOOLEAN:
            self._stop_after(left)
        return Test("TRUE", left)

    def _stop_after(self, left: Expression) -> NoReturn:
        if left.constant and left.kind is not Kind.BOOLEAN:
            self.stop("expected a comparison such as = or < after a value")
        self.stop(f"expected a comparison after {left}" if len(left.text) <= 60 else "expected a comparison")

    def lone(self, test: Test) -> Expression:
        """The operand of a test that has no comparison: it has to be a boolean."""
        if test.left.kind not in (None, Kind.BOOLEAN):
            self._stop_after(test.left)
        return test.left

    def _comparison(self, op: str, left: Expression) -> Test:
        self.at += 1
        at = self.at
        each = self.tokens[at].upper() if len(self.tokens[at]) == 3 else ""
        if each in _QUANTIFIERS and self.tokens[at + 1] == "(":
            return self._quantified(op, left, each)
        right = self.operand()
        if each in _QUANTIFIERS and self.tokens[self.at] is not END and NAME.fullmatch(self.tokens[self.at]):
            self._check_parentheses(each)
        if self.tokens[at][:1] == '"' and self.at == at + 1 and not left.constant:
            self._check_quoted(at)
        if op not in ("=", "<>") and Kind.BOOLEAN in (left.kind, right.kind):
            self.stop(_UNORDERED, at=self.at - 1)
        return Test(op, left, (right,))

    def _quantified(self, op: str, left: Expression, each: str) -> Test:
        self.at += 2
        listed = self._list(each)
        if op not in ("=", "<>") and left.kind is Kind.BOOLEAN:
            self.stop(_UNORDERED, at=self.at - 1)
        if self.tokens[self.at] != ")":
            self.stop(f"expected ) after the attribute of {each}", "IN (…) compares with several values")
        self.at += 1
        return Test(op, left, (listed,), each=each)

    def _list(self, whose: str) -> Expression:
        """The attribute that ANY, ALL or CONTAINS looks into."""
        token = self.tokens[self.at]
        if token in ("(", END) or token[0] in "'.0123456789-+":
            self.stop(f"expected an attribute that holds a list in {whose}", "IN (…) compares with several values")
        name = self.attribute(token)
        self.at += 1
        return made.attribute(name)

    def _check_parentheses(self, each: str) -> None:
        if word_of(self.tokens[self.at]) is None:
            name = self.tokens[self.at][:60]
            self.stop(f"expected AND, OR or the end after {each.lower()}", f"write {each}({name}) to look into a list")

    def _check_quoted(self, at: int) -> None:
        """AMQP has strings in double quotes, SQL names: refuse what reads both ways."""
        name = self.tokens[at][1:-1]
        if NAME.fullmatch(name) and word_of(name) is None:
            advice = f"double quotes name an attribute; write '{name}' for the string, or {name} for the attribute"
            self.stop("expected a value or an attribute that needs no quotes", advice if len(name) <= 60 else "", at=at)

    def _null_test(self, left: Expression) -> Test:
        self.at += 1
        negated = word_of(self.tokens[self.at]) == "NOT"
        self.at += negated
        if word_of(self.tokens[self.at]) != "NULL":
            self.stop("expected NULL or NOT NULL after IS")
        self.at += 1
        return Test("IS NULL", left, negated=negated)

    def _between(self, left: Expression, negated: bool) -> Test:
        self.at += 1
        low = self.operand()
        if word_of(self.tokens[self.at]) != "AND":
            self.stop("expected AND between the two ends of BETWEEN")
        self.at += 1
        high = self.operand()
        kinds = {low.kind, high.kind} - {None}
        if len(kinds) > 1 or Kind.BOOLEAN in kinds:
            self.stop("expected two numbers, two strings or two timestamps in BETWEEN", at=self.at - 1)
        return Test("BETWEEN", left, (low, high), negated)

    def _in(self, left: Expression, negated: bool) -> Test:
        self.at += 1
        if self.tokens[self.at] != "(":
            self.stop("expected ( and a list of values after IN")
        if self.tokens[self.at + 1] == ")":
            self.stop(_WANTED, at=self.at + 1)
        values, end = plain_list(self.tokens, self.at + 1) if left.name is not None else ((), 0)
        if values:
            self.at = end + 1
            return Test("IN", left, (), negated, values=values)
        listed: list[Expression] = []
        first: Kind | None = None
        while True:
            self.at += 1
            at = self.at
            listed.append(self.operand())
            if self.tokens[at][:1] == '"' and self.at == at + 1:
                self._check_quoted(at)
            if listed[-1].constant:
                first = first or listed[-1].kind
                if listed[-1].kind is not first and first is not None:
                    self.stop(f"expected a {first.value}: an IN list holds values of one kind", at=self.at - 1)
            if len(listed) > EXPRESSION_SIZE_MAX and left.name is None:
                self.stop(f"this expression has more than {EXPRESSION_SIZE_MAX:,} parts", at=self.at - 1)
            if self.tokens[self.at] == ")":
                break
            if self.tokens[self.at] != ",":
                self.stop("expected , or ) in the IN list")
        self.at += 1
        return Test("IN", left, tuple(listed), negated)

    def _like(self, left: Expression, negated: bool) -> Test:
        self.at += 1
        at = self.at
        pattern, escape = self._string("a pattern such as 'abc%' after LIKE"), None
        if word_of(self.tokens[self.at]) == "ESCAPE":
            self.at += 1
            escape = self._string("a character in quotes after ESCAPE")
            if len(escape) != 1:
                self.stop("expected exactly one character after ESCAPE", at=self.at - 1)
        try:
            canonical_pattern = pattern_from(pattern, escape)
        except ValueError:
            self.stop(f"in this pattern {escape} must stand before %, _ or {escape}", at=at)
        longest = longest_gapped(canonical_pattern)
        if longest > LIKE_GAPPED_MAX:
            said = f"this pattern has {longest:,} characters with _ between two %; the limit is {LIKE_GAPPED_MAX:,}"
            self.stop(said, "put another % among them, or use REGEXP_LIKE", at=at)
        return Test("LIKE", left, (), negated, canonical_pattern)

    # Operands ------------------------------------------------------------------------------------

    def operand(self, level: int = SUM) -> Expression:
        left = self._prefix()
        while True:
            sign = self.tokens[self.at]
            binding = OPERATORS.get(sign)
            if binding is None or binding < level:
                return left
            self._want(Kind.NUMBER, left, self.at - 1)
            self.at += 1
            right = self.operand(binding + 1)
            self._want(Kind.NUMBER, right, self.at - 1)
            left = self.bounded(made.arithmetic(sign, left, right))

    def _want(self, kind: Kind | None, found: Expression, at: int) -> None:
        if kind is None or found.kind in (None, kind):
            return
        advice = ""
        if found.kind is Kind.TIMESTAMP and kind is Kind.NUMBER:
            advice = "TIMESTAMPDIFF(SECOND, a, b) says how far two timestamps are apart"
        self.stop(f"expected a {kind.value}, found the {found.kind.value} {found}"[:120], advice, at=at)

    def bounded(self, found: Expression) -> Expression:
        if found.depth > EXPRESSION_DEPTH_MAX:
            self.stop(f"operators are nested more than {EXPRESSION_DEPTH_MAX} deep", at=self.at - 1)
        if found.size > EXPRESSION_SIZE_MAX:
            self.stop(f"this expression has more than {EXPRESSION_SIZE_MAX:,} parts", at=self.at - 1)
        return found

    def _prefix(self) -> Expression:
        token = self.tokens[self.at]
        first = token[:1]
        if token and (first in "'.0123456789" or token[-1] == "'"):
            return made.constant(self.value())
        if token in ("-", "+"):
            return self._signed(token)
        if token == "(":
            return self._within()
        word = word_of(token)
        if word in ("TRUE", "FALSE"):
            self.at += 1
            return made.constant(word == "TRUE")
        if token is not END and self.tokens[self.at + 1] == "(" and word is None and NAME.fullmatch(token):
            return self._call(token)
        name = self.attribute(token)
        self.at += 1
        return made.attribute(name)

    def _signed(self, sign: str) -> Expression:
        self.at += 1
        token = self.tokens[self.at]
        if token[:1] in ".0123456789" and token:
            return made.constant(self._number(token, -1 if sign == "-" else 1))
        self._descend()
        inner = self.operand(SIGN)
        self._nested -= 1
        self._want(Kind.NUMBER, inner, self.at - 1)
        # A lone + says that a number is meant; 0 + x says the same, and SQL has no other way to print it.
        return self.bounded(made.negation(inner) if sign == "-" else made.arithmetic("+", made.constant(0), inner))

    def _descend(self) -> None:
        self._nested += 1
        if self._nested > EXPRESSION_DEPTH_MAX:
            self.stop(f"operators are nested more than {EXPRESSION_DEPTH_MAX} deep")

    def _within(self) -> Expression:
        """What stands in parentheses: an operand, or a condition as one."""
        opened = self.at
        self._descend()
        alternatives: list[Expression] = []
        chain: list[Expression] = []
        word: str | None = "("
        while word:
            self.at += 1
            chain.append(self._part())
            word = word_of(self.tokens[self.at])
            if word != "AND":
                alternatives.append(chain[0] if len(chain) == 1 else self.bounded(made.joined("AND", chain)))
                chain = []
            if word not in ("AND", "OR"):
                break
        if self.tokens[self.at] != ")":
            if self.tokens[self.at] is END:
                self.stop("this parenthesis is never closed", at=opened)
            self.stop("expected AND, OR or )")
        self.at += 1
        self._nested -= 1
        return alternatives[0] if len(alternatives) == 1 else self.bounded(made.joined("OR", alternatives))

    def _part(self) -> Expression:
        """NOTs and a test; a lone operand has to be a boolean where it is connected with something."""
        nots = 0
        while word_of(self.tokens[self.at]) == "NOT":
            nots += 1
            self.at += 1
        found = self.test()
        negated = nots % 2 == 1
        if found.form != "TRUE":
            return self.bounded(as_expression(found._replace(negated=found.negated is not negated)))
        if nots or word_of(self.tokens[self.at]) in ("AND", "OR"):
            self.lone(found)
        whole = made.inverse(found.left) if nots else found.left
        return self.bounded(whole if negated or not nots else made.inverse(whole))

    def _call(self, token: str) -> Expression:
        name, at = token.upper(), self.at
        if name == "CONTAINS":
            return self._contains()
        if name == "REGEXP_LIKE":
            return self._regexp()
        function = FUNCTIONS.get(name)
        if name == "UTC":
            self.stop("there is no function UTC: what matches must not depend on the time", "send it as an attribute")
        if function is None:
            names = [*FUNCTIONS, "CONTAINS", "REGEXP_LIKE"]
            close = difflib.get_close_matches(name, names, n=1, cutoff=0.65)
            known = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"
            self.stop(f"there is no function {token}"[:60], known)
        self.at += 2
        self._descend()
        unit = self._unit() if function.unit else ""
        given = self._arguments(name, function, at)
        self._nested -= 1
        return self.bounded(difference(unit, given) if unit else function.make(given))

    def _contains(self) -> Expression:
        """CONTAINS(tags, 'x'), another way to write 'x' = ANY(tags)."""
        self.at += 2
        self._descend()
        listed = self._list("CONTAINS")
        if self.tokens[self.at] != ",":
            self.stop("expected , and what to look for in CONTAINS")
        self.at += 1
        wanted = self.operand()
        if self.tokens[self.at] != ")":
            self.stop("expected ) after what CONTAINS looks for")
        self.at += 1
        self._nested -= 1
        return self.bounded(made.quantified("=", wanted, False, listed))

    def _regexp(self) -> Expression:
        called_at = self.at
        self.at += 2
        self._descend()
        at = self.at
        operand = self.operand()
        self._want(Kind.STRING, operand, at)
        if self.tokens[self.at] != ",":
            self.stop("expected , and a pattern in REGEXP_LIKE")
        self.at += 1
        at = self.at
        pattern = self._string("a pattern in quotes in REGEXP_LIKE")
        if self.tokens[self.at] != ")":
            self.stop("expected ) after the pattern of REGEXP_LIKE", "write (?i) at its beginning to ignore case")
        self.at += 1
        self._nested -= 1
        blind = not regexp.available()
        if blind and (operand.constant or not self.blind):
            self.stop("REGEXP_LIKE needs re2, which is not installed", f"add it with: {_INSTALL}", at=called_at)
        wrong = "" if blind else regexp.problem_with(pattern)
        if wrong:
            self.stop(wrong, at=at)
        return self.bounded(made.regexp(operand, pattern, blind))

    def _unit(self) -> str:
        unit = self.tokens[self.at].upper()
        if unit not in UNITS:
            self.stop(f"expected a unit: {', '.join(UNITS)}")
        self.at += 1
        if self.tokens[self.at] != ",":
            self.stop("expected , after the unit")
        self.at += 1
        return unit

    def _arguments(self, name: str, function: Function, called_at: int) -> list[Expression]:
        given: list[Expression] = []
        fewest, most = function.arguments
        while self.tokens[self.at] != ")" or given:
            at = self.at
            given.append(self.operand())
            self._want(function.wants[min(len(given), len(function.wants)) - 1], given[-1], at)
            if self.tokens[self.at] == ")":
                break
            if self.tokens[self.at] != ",":
                self.stop(f"expected , or ) in the arguments of {name}")
            self.at += 1
        self.at += 1
        if not fewest <= len(given) <= most:
            wanted = f"{fewest}" if fewest == most else f"{fewest} to {most}"
            self.stop(f"{name} takes {wanted} arguments, not {len(given)}", at=called_at)
        return given

    # Names and values ----------------------------------------------------------------------------

    def attribute(self, token: str) -> str:
        if token[:1] == '"' and len(token) > 2 and token[-1] == '"':
            name = token[1:-1].replace('""', '"')
        elif token[:1] == "[" and len(token) > 2 and token[-1] == "]":
            if _CONSTANTS.match(token):
                self.stop("expected one value, or a name that is not taken for a list", _NO_LISTS)
            name = token[1:-1].replace("[[", "[").replace("]]", "]")
        elif NAME.fullmatch(token) and word_of(token) is None:
            name = token
        else:
            self.stop("expected an attribute's name" if self._starts_a_test() else _WANTED)
        if len(name) > NAME_CHARACTERS_MAX:
            self.stop(f"this name has {len(name)} characters; the limit is {NAME_CHARACTERS_MAX}")
        return shared_name(name) or name

    def _starts_a_test(self) -> bool:
        before = self.tokens[self.at - 1] if self.at else END
        return before in (END, "(") or word_of(before) in ("AND", "OR", "NOT")

    def _string(self, expected: str) -> str:
        token = self.tokens[self.at]
        if token[:1] != "'" or len(token) < 2 or token[-1] != "'":
            self.stop(f"expected {expected}")
        self.at += 1
        return token[1:-1].replace("''", "'")

    def value(self) -> Value:
        """A literal without a sign."""
        token = self.tokens[self.at]
        first = token[:1]
        if first == "'" and token[-1] == "'" and len(token) > 1:
            self.at += 1
            text = token[1:-1]
            return text.replace("''", "'") if "'" in text else text
        if first in ".0123456789" and first:
            return self._number(token, 1)
        if token[:9].upper() == "TIMESTAMP" and token[-1] == "'":
            return self._timestamp(token)
        self.stop(_WANTED)

    def _number(self, token: str, sign: int) -> Value:
        if token[-1:] in _SUFFIXES and NUMBER.fullmatch(token[:-1]):
            token = token[:-1]
        if not NUMBER.fullmatch(token):
            self.stop("expected a number")
        number: int | float = sign * float(token)
        if isinf(number):
            self.stop("this number is too large for a double")
        if token.isdecimal():
            number = sign * int(token.lstrip("0") or "0")  # int() refuses thousands of zeros
            if not INTEGER_MIN <= number <= INTEGER_MAX:
                double = f"write it as a double: {float(token):.17g}"
                self.stop("this integer does not fit in 64 bits", double)
        self.at += 1
        return canonical(number)

    def _timestamp(self, token: str) -> Value:
        text = token[token.index("'") + 1 : -1]
        try:
            moment = canonical(datetime.fromisoformat(text))
        except (ValueError, InputError):
            self.stop("expected a date and time as in TIMESTAMP '2026-01-31 09:30:00'")
        self.at += 1
        assert kind_of(moment) is Kind.TIMESTAMP
        return moment
