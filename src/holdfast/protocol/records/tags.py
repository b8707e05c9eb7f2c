"""What an event says of itself, as tags: byte strings that a Bloom filter hashes.

The rule that everything rests on: whatever a condition asks for, every event that matches it has. So equal values
have equal tags: numbers are spelt in one way (5, 5.0 and 5e0 alike, -0.0 as 0, integers exactly beyond 2**53),
timestamps by their microseconds in UTC. NaN and lists equal nothing and have no tag of their own. Existence is told
without a kind and with it. (Tags that spell 5 and 5.0 differently, or existence with the kind alone, break the rule.)
"""

from collections.abc import Sequence
from typing import Literal

from holdfast.language.like import plain, segments
from holdfast.model.values import Kind, Value, canonical, kind_of, microseconds
from holdfast.protocol.records.ordering import literal_run

Family = Literal["prefix", "suffix", "grams"]  # parts of a text that get tags as well

_LENGTHS = (8, 6, 4, 3, 2, 1)  # of the prefixes and suffixes that have tags
_GRAM = 3
_GRAMS_MAX = 24  # distinct ones of a text; a longer text gets the one tag that says so, or it would fill the filter


def spelling(value: Value) -> bytes | None:
    """The one spelling of a value; None for NaN and for lists, which equal nothing."""
    if type(value) is str:
        return b"s" + value.encode("utf-8", "surrogatepass")
    if type(value) is bool:
        return b"b1" if value else b"b0"
    if kind_of(value) is Kind.TIMESTAMP:
        return b"t%d" % microseconds(value)  # type: ignore[arg-type]  # a timestamp is a datetime
    if value != value or type(value) is list:
        return None
    return b"n" + repr(canonical(value)).encode()


def equality(name: bytes, spelt: bytes) -> bytes:
    return name + b"\0=" + spelt


def missing(name: bytes) -> bytes:
    return name + b"\0!"


def existence(name: bytes, kind: Kind | None = None) -> bytes:
    """That there is a value; with a kind, one that can be compared with that kind."""
    return name + b"\0*" + (b"" if kind is None else kind.value.encode())


def presence_tags(name: bytes, value: Value) -> list[bytes]:
    if value != value:
        return [existence(name)]
    return [existence(name), existence(name, kind_of(value))]


def text_tags(name: bytes, text: str, families: Sequence[Family]) -> list[bytes]:
    """Tags for the parts of a text that LIKE may ask for."""
    tags = []
    if "prefix" in families:
        tags += [_part(name, b"^", text[:length]) for length in _LENGTHS if length <= len(text)]
    if "suffix" in families:
        tags += [_part(name, b"$", text[-length:]) for length in _LENGTHS if length <= len(text)]
    if "grams" in families:
        grams = _grams(text)
        tags += [_many_grams(name)] if len(grams) > _GRAMS_MAX else [_part(name, b"~", gram) for gram in grams]
    return tags


def like_tags(name: bytes, pattern: str, families: Sequence[Family]) -> list[list[bytes]]:
    """Sets of tags; an event whose text fits the pattern has all tags of at least one set."""
    parts = segments(pattern)
    needed = []
    head, tail = literal_run(parts[0]), literal_run(parts[-1][::-1])[::-1]
    for family, sign, text in (("prefix", b"^", head), ("suffix", b"$", tail)):
        length = next((each for each in _LENGTHS if each <= len(text)), 0)
        if family in families and length:
            needed.append(_part(name, sign, text[:length] if family == "prefix" else text[-length:]))
    grams = [gram for part in parts for gram in _grams(plain(part) or "")] if "grams" in families else []
    if not grams:
        return [needed]
    return [needed + [_part(name, b"~", gram) for gram in dict.fromkeys(grams)], needed + [_many_grams(name)]]


def _part(name: bytes, sign: bytes, text: str) -> bytes:
    return name + b"\0" + sign + text.encode("utf-8", "surrogatepass")


def _many_grams(name: bytes) -> bytes:
    return name + b"\0~~"


def _grams(text: str) -> list[str]:
    return list(dict.fromkeys(text[at : at + _GRAM] for at in range(len(text) - _GRAM + 1)))
