"""Which shard can want an event? Subscriptions and events are sent to the same place by the same rule.

A filter that tests an attribute for equality wants only events with that value, so the value decides the shard. Strings
and integers are used; every other filter, and a subscription whose filters lead to several shards, belongs to the rest,
which every event asks. A pair is then found in one place only.
"""

from collections.abc import Iterable, Sequence
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.language.subscription import Filter, Subscription

REST = -1  # the shard that every event asks
_MIX = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: spreads neighbouring integers
_WORD = 2**64 - 1
_SPREAD_MIN = 4  # distinct values per shard below which an attribute does not spread subscriptions evenly

Shards = npt.NDArray[np.int32]


def routing_attributes(sample: Iterable[Subscription], shards: int) -> tuple[str, ...]:
    """The attributes whose equality tests split best, judged by how many values a sample of subscriptions names."""
    values: dict[str, set[str | int]] = {}
    for subscription in sample:
        for attribute, value in (key for filter_ in subscription.filters for key in _keys(filter_)):
            values.setdefault(attribute, set()).add(value)
    spread = {name: len(found) for name, found in values.items() if len(found) >= _SPREAD_MIN * shards}
    return tuple(sorted(spread, key=lambda name: (-spread[name], name)))


def _keys(filter_: Filter) -> list[tuple[str, str | int]]:
    return [
        (each.attribute, each.operand)
        for each in filter_
        if each.op == "=" and (type(each.operand) is str or (type(each.operand) is int and _fits(each.operand)))
    ]


def _fits(number: int) -> bool:
    return -(2**63) <= number < 2**63


def shard_of(subscription: Subscription, attributes: Sequence[str], shards: int) -> int:
    """Where a subscription lives."""
    found = {_filter_shard(each, attributes, shards) for each in subscription.filters}
    return found.pop() if len(found) == 1 else REST


def _filter_shard(filter_: Filter, attributes: Sequence[str], shards: int) -> int:
    keys = dict(_keys(filter_))
    for attribute in attributes:
        if attribute in keys:
            return _place(attribute, keys[attribute], shards)
    return REST


def _place(attribute: str, value: str | int, shards: int) -> int:
    seed = crc32(attribute.encode())
    if isinstance(value, str):
        return crc32(value.encode("utf-8", "surrogatepass"), seed) % shards
    return ((((value ^ seed) * _MIX) & _WORD) >> 33) % shards


def shards_of(attribute: str, column: pa.Array, shards: int) -> Shards | None:
    """For each event the shard that its value leads to, or REST; None when no value can lead anywhere."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        if not _is_text(kind.value_type):
            column = column.dictionary_decode()
            kind = column.type
    if pa.types.is_dictionary(kind) or _is_text(kind):
        return _text_shards(attribute, column, shards)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _number_shards(attribute, column, shards)
    return None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _text_shards(attribute: str, column: pa.Array, shards: int) -> Shards:
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    texts = column.dictionary.to_pylist()
    found = [REST if text is None else _place(attribute, text, shards) for text in texts]
    places = np.array([*found, REST], np.int32)  # the last one serves rows without a text
    return places[column.indices.cast(pa.int64()).fill_null(len(texts)).to_numpy()]


def _number_shards(attribute: str, column: pa.Array, shards: int) -> Shards:
    missing = column.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(column.type):
        doubles = column.cast(pa.float64()).fill_null(0.5).to_numpy()
        # A double that is no whole number of 64 bits equals none of the integers that lead to a shard.
        with np.errstate(invalid="ignore"):
            missing = missing | (doubles != np.floor(doubles)) | ~((doubles >= -(2.0**63)) & (doubles < 2.0**63))
        numbers = np.where(missing, 0, doubles).astype(np.int64)
    elif pa.types.is_uint64(column.type):
        unsigned = column.fill_null(0).to_numpy()
        missing = missing | (unsigned >= 2**63)
        numbers = unsigned.astype(np.int64)
    else:
        numbers = column.cast(pa.int64()).fill_null(0).to_numpy()
    mixed = (numbers ^ np.int64(crc32(attribute.encode()))).view(np.uint64) * np.uint64(_MIX)
    places = ((mixed >> np.uint64(33)) % np.uint64(shards)).astype(np.int32)
    places[missing] = REST
    return places
