"""The Bloom filters that paper 000 ran on, as Siena's B-DRP encoder made them, to compare ours with.

256 bits, two polynomial hashes modulo 8191. Every attribute has a tag for its value, spelt with its type, and one for
its existence, spelt with its class. An equality asks for both, every other test for existence alone. Two of its
defects lose messages: 5 and 5.0 have different tags, and IS NOT NULL asks for a class that no message has.
"""

from datetime import datetime

from holdfast.language.subscription import Filter, Subscription
from holdfast.model.event import Attributes
from holdfast.model.values import Value, microseconds

_MODULUS = 8_191
_MULTIPLIERS = (7, 3)


def siena_entry(attributes: Attributes, bits: int = 256) -> int:
    mask = 0
    for name, value in attributes.items():
        if value is not None:
            mask |= _mask(_equality(name, value), bits) | _mask(_existence(name, value), bits)
    return mask


def siena_covers(entry: int, masks: list[int]) -> bool:
    return any(entry & mask == mask for mask in masks)


def siena_pattern(subscription: Subscription, bits: int = 256) -> list[int]:
    return [_filter_mask(each, bits) for each in subscription.filters]


def _filter_mask(filter_: Filter, bits: int) -> int:
    mask = 0
    for name, op, operand in filter_:
        value = operand[0] if isinstance(operand, tuple) else operand
        mask |= _mask(_existence(name, value), bits)
        if op == "=":
            mask |= _mask(_equality(name, value), bits)
    return mask


def _equality(name: str, value: Value) -> str:
    match value:
        case bool():
            return f"{name}={'T' if value else 'F'}"
        case int():
            return f"{name}=i{value}"
        case datetime():
            return f"{name}=i{microseconds(value)}"
        case float():
            return f"{name}=d{value!r}"
        case str():
            return f"{name}=s{value}"


def _existence(name: str, value: Value | None) -> str:
    if value is None:
        return f"{name}**"
    return f"{name}*{'b' if isinstance(value, bool) else 's' if isinstance(value, str) else 'n'}"


def _mask(tag: str, bits: int) -> int:
    mask = 0
    for multiplier in _MULTIPLIERS:
        hashed = 0
        for byte in tag.encode("utf-8", "surrogatepass"):
            hashed = (hashed * multiplier + byte) % _MODULUS
        mask |= 1 << hashed % bits
    return mask
