"""A condition as a selector of JMS, which ActiveMQ evaluates before it sends anything.

A selector sees the headers of a message, so an event that travels as JSON also has its attributes as headers, as text.
A selector may let too much through, because the client matches again, and never too little. So what cannot be said
exactly is left out of it; messages without these headers pass, as those of other clients of the bus; and numbers are
written as doubles, which the server then makes of the texts: an integer literal would not equal "1.0".

What a selector holds back leaves gaps in the numbers of a lane. The subscriber then goes by digests alone, and asks
the publisher what it was about the numbers that did not come: that tells apart what was held back and what is lost.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from math import isfinite
from typing import Final

from holdfast.language.constraint import Constraint
from holdfast.language.lanes import without_control
from holdfast.language.subscription import Filter, Subscription
from holdfast.model.values import Value

FIELDS: Final = "HoldfastFields"  # the header of a message that has all attributes of its event as headers
_OWN = "hf_"  # before each attribute: headers such as type and priority are the protocol's
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXACT = 2**53  # up to here doubles have every integer
_VALUE_MAX = 256  # characters of an attribute in a header, and
_FIELDS_MAX = 32  # so many of them: an event with more passes every selector
_SELECTOR_MAX = 8_192  # characters: a broker parses it once, and evaluates it for every message
_COMPARED = frozenset(("=", "<>", "<", "<=", ">", ">="))


def headers_of(attributes: Mapping[str, Value | None]) -> dict[str, str]:
    """The headers of an event that selectors ask about; none where not all of it can be said."""
    if len(attributes) > _FIELDS_MAX:
        return {}
    found = {FIELDS: "1"}
    for name, value in attributes.items():
        if value is None:  # as if it were not there
            continue
        text = value if isinstance(value, str) else repr(value) if isinstance(value, int | float) else "~"
        odd = isinstance(value, float) and not isfinite(value)  # which the server would read otherwise
        if odd or not _IDENTIFIER.fullmatch(name) or not 0 < len(text) <= _VALUE_MAX or not _is_plain(text):
            return {}
        found[_OWN + name] = text
    return found


def selector_of(conditions: Iterable[Subscription]) -> str:
    """What passes all that one of these conditions matches; empty: everything passes."""
    parts: dict[str, None] = {}
    for condition in conditions:
        for filter_ in without_control(condition).filters:
            said = _filter_text(filter_)
            if not said:
                return ""
            parts[said] = None
    text = f"{FIELDS} IS NULL OR {' OR '.join(f'({each})' for each in parts)}"
    return text if parts and len(text) <= _SELECTOR_MAX else ""


def _filter_text(filter_: Filter) -> str:
    return " AND ".join(said for each in filter_ if (said := _constraint_text(each)))


def _constraint_text(constraint: Constraint) -> str:
    """Empty for what a selector cannot say, or not exactly."""
    attribute, op, operand = constraint
    if not _IDENTIFIER.fullmatch(attribute):
        return ""
    name = _OWN + attribute
    if op in ("IS NULL", "IS NOT NULL"):
        return f"{name} {op}"
    if op == "IN":
        each = [_literal(value) for value in operand]
        return f"({' OR '.join(f'{name} = {text}' for text in each)})" if all(each) else ""
    literal = _literal(operand)
    if op not in _COMPARED or not literal or (literal[0] == "'" and op not in ("=", "<>")):
        return ""  # texts are not ordered in JMS
    return f"{name} {op} {literal}"


def _literal(value: object) -> str:
    if isinstance(value, str):
        quoted = value.replace("'", "''")
        return f"'{quoted}'" if value and _is_plain(value) and not _is_numeric(value) else ""
    if isinstance(value, bool | datetime) or not isinstance(value, int | float):
        return ""
    text = repr(float(value)) if isfinite(value) and abs(value) < _EXACT else "e"
    return "" if "e" in text else text


def _is_plain(text: str) -> bool:
    """It arrives in a header as it is."""
    return text.isprintable() and text == text.strip()


def _is_numeric(text: str) -> bool:
    """Such a text may be taken for a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
