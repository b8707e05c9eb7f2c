"""Cut a condition into tokens. One regular expression, one call, no positions: the parser's fast path needs
only the words. Positions are worked out again, slowly, when there is a problem to point at.
"""

import re

# Words with a meaning of their own; an attribute of this name must be quoted.
KEYWORDS = frozenset("AND OR NOT BETWEEN IN LIKE ESCAPE IS NULL TRUE FALSE".split())

_WORD = r"[^\W\d][\w$]*"
NAME = re.compile(rf"{_WORD}(?:\.{_WORD})*")
# ASCII digits only: Python would also read ٣, 1_000 and nan as numbers.
NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

_TOKEN = re.compile(
    r"\s*("
    r"(?i:TIMESTAMP)\s*'(?:[^']|'')*'"  # before names: only the quote makes it a literal
    rf"|{NAME.pattern}"
    r"|<=|>=|<>|!=|==|&&|\|\||--|/\*|[=<>(),]"  # -- and /* begin comments elsewhere, never two operators
    r"|'(?:[^']|'')*'"
    rf"|{NUMBER.pattern}(?![\w.])"
    r'|"(?:[^"]|"")*"'
    r"|\[(?:[^\[\]]|\[\[|\]\])*\]"  # a name as AMQP quotes it
    r"|[0-9][\w.]*"  # a number that went wrong
    r"|['\"].*"  # an unclosed quote takes the rest of its line
    r"|\S"
    r")"
)

END = ""  # the token after the last


def tokens_of(text: str) -> list[str]:
    # At white space with nothing behind it every character would be tried in turn, in quadratic time.
    tokens: list[str] = _TOKEN.findall(text.rstrip())
    tokens.append(END)
    return tokens


def spans_of(text: str) -> list[tuple[int, int]]:
    """Start and end of each token of `tokens_of`, the end of the text included."""
    text = text.rstrip()
    spans = [match.span(1) for match in _TOKEN.finditer(text)]
    spans.append((len(text), len(text)))
    return spans
