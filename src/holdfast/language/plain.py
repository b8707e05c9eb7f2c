"""The fast lane: plain comparisons and IN lists joined by AND, which is most of what people write.

One regular expression reads a whole comparison with the AND behind it, three times as fast as token by token.
It knows no error and no exception to a rule: whatever it does not recognise at once is left, from the
beginning, to the parser, and a test wants both to agree wherever this one answers.
"""

import re
from collections.abc import Iterable

from holdfast.language.constraint import Constraint, constraint
from holdfast.language.limits import NAME_CHARACTERS_MAX
from holdfast.language.subscription import Filter
from holdfast.language.tokens import KEYWORDS, NAME
from holdfast.model.values import Value, canonical

_NUMBER = r"-?[0-9]{1,18}(?:\.[0-9]+)?"  # 18 digits always fit in 64 bits
_TEXT = r"'[^']*'"
_ALONE = rf"{_NUMBER}(?![\w.])"


def _listed(value: str) -> str:
    return rf"{value}(?:\s*+,\s*+{value})*+\s*+"


_COMPARISON = re.compile(
    rf"\s*((?>{NAME.pattern}))"  # the whole word, as the parser cuts it: xLIKE is a name
    r"\s*(?:(<=|>=|<>|=|<|>)"
    rf"\s*(?:'([^']*)'|({_ALONE}))"
    r"|(?:LIKE|like)\s+'([^'%_!]+%)'(?!\s*(?i:ESCAPE))"
    rf"|(?:BETWEEN|between)\s+({_NUMBER})\s+(?:AND|and)\s+({_ALONE})"
    rf"|((?:NOT|not)\s+)?(?:IN|in)\s*\(\s*(?:({_listed(_TEXT)})|({_listed(_ALONE)}))\))"
    r"\s*(?:(AND|and)\b|$)"
)
_numbers = re.compile(_listed(_ALONE)).fullmatch
_texts = re.compile("'([^']*)'").findall
_NAMES_SHARED_MAX = 4_096  # distinct attribute names kept, so that a million conditions share one 'price'
_names: dict[str, str] = {}
_STRINGS_SHARED_MAX = 16_384  # constraints kept: about 3 MB
_STRING_CHARACTERS_MAX = 64  # of a string worth sharing: long ones seldom repeat and would fill the memory
_strings: dict[tuple[str, str, str], Constraint] = {}


def plain_conjunction(text: str) -> Filter | None:
    constraints = []
    match = _COMPARISON.match
    at, more = 0, "AND"
    while more:
        found = match(text, at)
        if found is None:
            return None
        name, op, string, number, prefix, low, high, negated, texts, numbers, more = found.groups()
        attribute = _names.get(name) or shared_name(name)
        if attribute is None:
            return None
        if string is not None:
            # A million conditions name the same few thousand symbols: let them share.
            shared = _strings.get((attribute, op, string))
            constraints.append(shared or _shared_string(attribute, op, string))
        elif number is not None:
            constraints.append(Constraint(attribute, op, _value(number)))
        elif prefix is not None:
            constraints.append(Constraint(attribute, "LIKE", prefix))
        elif low is None:
            values: Iterable[Value] = _texts(texts) if texts is not None else map(_value, numbers.split(","))
            constraints.append(constraint(attribute, "NOT IN" if negated else "IN", tuple(values)))
        else:
            constraints.append(Constraint(attribute, ">=", _value(low)))
            constraints.append(Constraint(attribute, "<=", _value(high)))
        at = found.end()
    return tuple(constraints)


def plain_list(tokens: list[str], at: int) -> tuple[tuple[Value, ...], int]:
    """The values of an IN list of plain numbers or of texts alone, and where it is closed; of any other, none."""
    try:
        end = tokens.index(")", at)
    except ValueError:
        return (), 0
    values, commas = tokens[at:end:2], tokens[at + 1 : end : 2]
    if commas.count(",") == len(commas) == len(values) - 1 and all(len(each) > 1 for each in values):
        if all(each[0] == "'" == each[-1] for each in values):
            return tuple([each[1:-1].replace("''", "'") for each in values]), end
    listed = " ".join(tokens[at:end]).replace("- ", "-")  # 1 2 is not 12
    return tuple(map(_value, listed.split(","))) if _numbers(listed) else (), end


def _value(number: str) -> Value:
    return canonical(float(number)) if "." in number else int(number)


def _shared_string(attribute: str, op: str, string: str) -> Constraint:
    made = Constraint(attribute, op, string)
    if len(string) > _STRING_CHARACTERS_MAX:
        return made
    if len(_strings) >= _STRINGS_SHARED_MAX:
        _strings.clear()
    return _strings.setdefault((attribute, op, string), made)


def shared_name(name: str) -> str | None:
    """The one copy of a name that all conditions share; None for a keyword or an overlong name."""
    if len(name) > NAME_CHARACTERS_MAX or name.upper() in KEYWORDS:
        return None
    if len(_names) >= _NAMES_SHARED_MAX:
        _names.clear()
    return _names.setdefault(name, name)
