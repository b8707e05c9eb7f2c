"""Turn the places where the parser stumbled into problems a person can act on.

Runs only when a condition has been refused, so it may take its time: it works out positions, looks at the
offending token and its neighbours, and guesses what was meant.
"""

import difflib
import re

from holdfast.language.problems import ConditionError, ConditionProblem
from holdfast.language.tokens import END, KEYWORDS, spans_of

_MEANT = {
    "==": "write = for equality",
    "&&": "write AND",
    "&": "write AND",
    "||": "write OR; texts cannot be joined",
    "|": "write OR",
    "!": "write NOT",
    "~": "write LIKE with % and _ as wildcards, or REGEXP_LIKE(name, 'pattern')",
    "=~": "write LIKE with % and _ as wildcards, or REGEXP_LIKE(name, 'pattern')",
    "≥": "write >=",
    "≤": "write <=",
    "≠": "write <>",
    "[": "put a name with unusual characters in double quotes",
    "`": "put a name with unusual characters in double quotes",
    "--": "there are no comments; write - -5, or - (-5), for two signs",
    "/*": "there are no comments",
    "?": "there are no parameters; write the value itself",
    "$": "there are no parameters; write the value itself",
    **dict.fromkeys("\ufeff\u200b\u200c\u200d\u2060", "this character is invisible; leave it out"),
    ";": "a condition is a single expression; leave the ; out",
    **dict.fromkeys("‘’‚´", "write straight quotes: 'abc' for a string"),
    **dict.fromkeys("“”„«»", "write straight quotes: 'abc' for a string, \"abc\" for a name"),
}
_TYPED = {
    "DATE": "write TIMESTAMP {}",
    "DATETIME": "write TIMESTAMP {}",
    "INTERVAL": "there are no intervals; compare with TIMESTAMPDIFF(unit, from, to)",
}
_REGULAR = frozenset(("REGEXP", "RLIKE", "SIMILAR", "MATCHES"))
_CURLY = re.compile("[‘’‚´“”„«»]")
_GROUPED = re.compile(r"[0-9]+(_[0-9]+)+(\.[0-9]*)?")
_THOUSANDS = re.compile(r"[0-9]{1,3},[0-9]{3}(\.[0-9]*)?")
_VALUE_STARTS = frozenset("'-+.0123456789")
_WANTS_TEXT = ("expected a value", "expected a pattern", "expected a character")
_ECHO_CHARACTERS_MAX = 60  # a suggestion that repeats more than this is not read
_CONTROL = [*sorted(KEYWORDS), "TIMESTAMP"]


class Stumble(Exception):  # control flow inside the parser, never seen outside
    """The parser could not go on at this token."""

    def __init__(self, at: int, expected: str, suggestion: str = "") -> None:
        super().__init__(expected)
        self.at = at
        self.expected = expected
        self.suggestion = suggestion


def diagnose(text: str, tokens: list[str], stumbles: list[Stumble]) -> ConditionError:
    spans = spans_of(text)
    problems = []
    for stumble in stumbles:
        start, end = spans[stumble.at]
        expected, guess = _describe(tokens, stumble)
        problems.append(ConditionProblem(start, end - start, expected, stumble.suggestion or guess))
    return ConditionError(text, problems)


def _describe(tokens: list[str], stumble: Stumble) -> tuple[str, str]:
    """What to say was expected, and a guess at what was meant."""
    token = tokens[stumble.at]
    before = tokens[stumble.at - 1] if stumble.at else END
    if token in ("=", "<", ">") and before in ("=", "<", ">", "!") and stumble.at:
        return stumble.expected, f"there is no operator {before}{token}; write =, <>, <=, >= or LIKE"
    if token[:1] in ("'", '"') and (len(token) == 1 or token[-1] != token[0]):
        quote = "single" if token[0] == "'" else "double"
        mend = f"add {token[0]} where the text ends; write {token[0] * 2} inside it"
        if _CURLY.search(token):
            mend = f"close it with the same straight {token[0]}; a typographic quote is a character like any other"
        return f"this {quote} quote is never closed", mend
    if token in _MEANT:
        return stumble.expected, _MEANT[token]
    if stumble.at and before[:1] == "'" and before.endswith("\\'"):
        return stumble.expected, "a backslash is a character like any other; write '' for a quote inside a string"
    if token[:1] == '"' and stumble.expected.startswith(_WANTS_TEXT) and len(token) <= _ECHO_CHARACTERS_MAX:
        inner = token[1:-1].replace('""', '"').replace("'", "''")
        return stumble.expected, f"double quotes name an attribute; write '{inner}' for the string"
    if tokens[0].upper() in ("SELECT", "WHERE") and stumble.expected.startswith("expected a comparison"):
        return stumble.expected, "a condition is what stands behind WHERE, without that word"
    if token[:1] == "'" and before.upper() in _TYPED and len(token) <= _ECHO_CHARACTERS_MAX:
        return stumble.expected, _TYPED[before.upper()].format(token)
    if stumble.expected.endswith("after IS"):
        return stumble.expected, _guess_is(tokens, stumble.at)
    return stumble.expected, _guess_grouped(tokens, stumble.at) or _guess_word(stumble, token)


def _guess_is(tokens: list[str], at: int) -> str:
    """IS compares with NULL only; elsewhere it also does with TRUE and FALSE, and people try other values."""
    word = tokens[at].upper()
    negated = tokens[at - 1].upper() == "NOT"
    name, sign = tokens[at - 2 - negated], "<>" if negated else "="
    if word in ("TRUE", "FALSE") and len(name) <= _ECHO_CHARACTERS_MAX:
        return f"write {name} {sign} {word}"
    return "IS asks for NULL only; compare a value with = or <>" if word[:1] in _VALUE_STARTS and word else ""


def _guess_grouped(tokens: list[str], at: int) -> str:
    """Digits in groups of three, as 1_000 or 1,000."""
    token = tokens[at]
    if len(token) > _ECHO_CHARACTERS_MAX:
        return ""
    if _GROUPED.fullmatch(token):
        return f"digits are not grouped; write {token.replace('_', '')}"
    nearby = "".join(tokens[max(at - 1, 0) : at + 2])
    if token == "," and _THOUSANDS.fullmatch(nearby):
        return f"digits are not grouped; write {nearby.replace(',', '')}"
    return ""


def _guess_number(token: str) -> str:
    """Numbers as programming languages write them."""
    if len(token) > _ECHO_CHARACTERS_MAX:
        return ""
    if re.fullmatch("0[xX][0-9a-fA-F]+", token):
        return f"write it in decimal: {int(token, 16)}"
    if re.fullmatch(r"[0-9]+(\.[0-9]*)?[fFdD]", token):
        return f"write {token[:-1]}; numbers have no suffix but L"
    return ""


def _guess_word(stumble: Stumble, token: str) -> str:
    upper = token.upper()
    if stumble.expected == "expected a number":
        return _guess_number(token)
    if upper in _REGULAR and stumble.expected.startswith("expected a comparison"):
        return "write REGEXP_LIKE(name, 'pattern')"
    if upper == "WHEN":
        return "there is no CASE; write (a AND b) OR (NOT a AND c)"
    if token == ")" and stumble.expected.startswith("expected a value"):
        return "write FALSE where nothing may match"
    wants_value = stumble.expected.startswith("expected a value")
    if token is END and stumble.at == 0:
        return "write TRUE to match every event"
    if len(token) > _ECHO_CHARACTERS_MAX or stumble.expected.startswith("expected a number"):
        return ""
    if upper == "NULL" and wants_value:
        return "no value equals NULL; write IS NULL or IS NOT NULL"
    if upper in KEYWORDS and wants_value:
        return ""
    if upper in KEYWORDS and "name" in stumble.expected:
        return f'{token} is a keyword; write "{token}" if it is the attribute\'s name'
    close = difflib.get_close_matches(upper, _CONTROL, n=1, cutoff=0.65)
    if close and close[0] != upper and token[:1].isalpha():
        return f"did you mean {close[0]}?"
    return ""
