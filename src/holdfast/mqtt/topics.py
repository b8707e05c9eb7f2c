"""Topic names and filters, and a filter as a condition of the language, which the index of a broker understands.

A filter becomes LIKE tests on the attribute `topic`: `a/b/#` is `topic = 'a/b' OR topic LIKE 'a/b/%'`, and `a/+/c` is
`topic LIKE 'a/%/c' AND topic NOT LIKE '%/%/%/%'`: a pattern with two slashes, on a text that has no third, leaves none
for its wildcards. So native subscribers and publishers need nothing but `topic`. A name behind a `+` in front of a `#`
(`a/+/c/#`) cannot be said that way: its condition lets a few more events pass, and `matches` has the last word.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from holdfast.model.values import literal
from holdfast.mqtt.fields import is_printable

TOPIC: Final = "topic"  # the attribute
SHARED: Final = "$share/"
LEVELS_MAX: Final = 128  # of a filter: a test looks at each; people use ten
NAME_LEVELS_MAX: Final = 200  # of a topic, as at Mosquitto: 200 filters took seconds to compare with 30,000 levels
_REMEMBERED = 4_096  # answers about topics, which come again and again: a megabyte or two
_CHARACTERS_MAX = 250  # of those that are remembered
_RESERVED = ("$SYS/", "$CONTROL/", SHARED)
_BRIDGE_STATE = "$SYS/broker/connection/+/state"  # what bridges say of themselves everywhere


def is_name(topic: object) -> bool:
    """Whether something may be the topic of an event."""
    if type(topic) is not str:
        return False
    return _is_name_remembered(topic) if len(topic) <= _CHARACTERS_MAX else _is_name(topic)


def _is_name(topic: str) -> bool:
    if not topic or topic.count("/") >= NAME_LEVELS_MAX:
        return False
    return "+" not in topic and "#" not in topic and is_printable(topic)


_is_name_remembered = lru_cache(_REMEMBERED)(_is_name)


def is_reserved(topic: str) -> bool:
    """Whether clients may not publish there."""
    return topic.startswith(_RESERVED) and not matches(_BRIDGE_STATE, topic)


def is_filter(text: str) -> bool:
    levels = text.split("/")
    if not text or len(levels) > LEVELS_MAX:
        return False
    alone = all(level in ("+", "#") or not {"+", "#"} & set(level) for level in levels)
    return alone and "#" not in levels[:-1]


def matches(text: str, topic: str) -> bool:
    """Whether a filter describes a topic."""
    if text == topic:
        return True
    few = len(text) + len(topic) <= _CHARACTERS_MAX
    return _matches_remembered(text, topic) if few else _matches(text, topic)


def _matches(text: str, topic: str) -> bool:
    wanted, levels = text.split("/"), topic.split("/")
    if wanted[0] in ("+", "#") and levels[0].startswith("$"):
        return False
    for at, level in enumerate(wanted):
        if level == "#":
            return True
        if at == len(levels) or level not in ("+", levels[at]):
            return False
    return len(wanted) == len(levels)


_matches_remembered = lru_cache(_REMEMBERED)(_matches)


def may_meet(text: str, template: str) -> bool:
    """Whether a filter can describe a topic made from a template, in which a level with {braces} may be anything."""
    wanted, levels = text.split("/"), template.split("/")
    if wanted[0] in ("+", "#") and levels[0].startswith("$"):
        return False
    for at, level in enumerate(wanted):
        if level == "#":
            return True
        if at == len(levels) or (level != "+" and "{" not in levels[at] and level != levels[at]):
            return False
    return len(wanted) == len(levels)


def condition_of(text: str) -> str:
    """A filter as a condition that holds for every topic it describes."""
    if "+" not in text and "#" not in text:
        return f"{TOPIC} = {literal(text)}"
    levels = text.split("/")
    plain = [] if levels[0] not in ("+", "#") else [f"{TOPIC} NOT LIKE '$%'"]
    if levels[-1] != "#":
        tests = [_like(levels), _fewer_slashes(len(levels)), *plain]
    else:
        above = levels[:-1]
        while above and above[-1] == "+":
            above.pop()
        tail = len(levels) - 1 - len(above)  # levels of + in front of the #
        tests = [*_below(above, tail), *plain]
    return " AND ".join(tests)


def _below(above: list[str], wild: int) -> list[str]:
    """A topic that begins with these levels and so many more, of any name."""
    if not above:
        return [f"{TOPIC} LIKE {literal('/'.join('%' * wild))}"] if wild > 1 else []
    if wild:
        return [_like([*above, *"+" * wild])]
    here = f"{TOPIC} = {literal('/'.join(above))}" if "+" not in above else _like(above)
    return [f"({here} OR {_like([*above, '+'])})"]


def _like(levels: Sequence[str]) -> str:
    """A pattern in which a + may stand for several levels."""
    wild = {"%": "!%", "_": "!_", "!": "!!"}
    parts = ["%" if level == "+" else "".join(wild.get(c, c) for c in level) for level in levels]
    pattern = "/".join(parts)
    return f"{TOPIC} LIKE {literal(pattern)}" + (" ESCAPE '!'" if "!" in pattern else "")


def _fewer_slashes(count: int) -> str:
    return f"{TOPIC} NOT LIKE {literal('%' + '/%' * count)}"
