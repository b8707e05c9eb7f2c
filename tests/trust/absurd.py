"""Messages that are well formed and mean nonsense: drawn from the types that the wire declares, at their edges.

Bytes that are no message are refused by the decoder. What reaches the machines of a broker are messages with numbers at
the limits, names of others, conditions without end, tables that contradict each other. So each message type is drawn
from its own declaration, field by field, and mostly with the extreme values that it allows.
"""

from random import Random
from typing import Any

import msgspec
from msgspec import inspect

from holdfast.model.messages import Message
from holdfast.mqtt.encoding import encode
from holdfast.mqtt.packets import AskedFilter, Packet, PublishAck, PublishPacket, Subscribe, Unsubscribe
from holdfast.wire.codec import MESSAGES, VERSION
from holdfast.wire.signals import Signal

NAMES = ["", "b1", "b2", "mallory", "bystander", "mqtt:x", "mqtt-door:b1", "~", "x" * 255, "\0", "é" * 99, "a b"]
WORDS = ["a", "n", "by", "~k", "~of", "~seq", "topic", "mqtt.retain", "mqtt.qos", "x.y.z", "$name", ""]
CONDITIONS = [
    "TRUE",
    "FALSE",
    "a = 1",
    "a IS NULL",
    "NOT (a = 1 AND b <> 2)",
    "a LIKE '%" + "_%" * 20 + "'",
    " OR ".join(f"a = {each}" for each in range(200)),
    " AND ".join(f"x{each} > {each}" for each in range(50)),
    "(" * 30 + "a = 1" + ")" * 30,
    "a BETWEEN -9e307 AND 9e307",
    "'~k' = TRUE",
    "a ==",
    "x * y + z / 0 > LENGTH(a)",
    "a IN (" + ", ".join(map(str, range(300))) + ")",
    " AND ".join(f"(a{each} = 1 OR b{each} LIKE '%{each}_')" for each in range(8)),  # 256 filters
    " AND ".join(f"(a{each} = 1 OR b{each} = 2)" for each in range(10)),  # as many as may be, and then too long a text
]
_SIZES = [0] * 8 + [1] * 8 + [2, 2, 3, 17]
_EDGES = [0, 1, 2, 3, 7, 255, 2**31, 2**32, 2**53, 2**62 - 1, 2**62, 2**63 - 1, 1_800_000_000_000_000]


_ANY_TIME = ("Ping", "Pong", "Missed", "Mark", "Denied", "AskPast")  # the other signals end a connection
_OF_CLIENTS = ("Publish", "Batch", "Delta", "Snapshot", "Heartbeat", "Handover", "Numbered", "Detach", "Stamped")


class Nonsense:
    def __init__(self, seed: int, own: str = "mallory") -> None:
        self._dice = Random(seed)
        self._own = own  # under which the attacker has greeted: messages of others are soon refused
        members = _members(Message)
        self._messages = members + 8 * [each for each in members if each.cls.__name__ in _OF_CLIENTS]
        self._signals = [each for each in _members(Signal) if each.cls.__name__ in _ANY_TIME]

    def frame(self) -> bytes:
        """Of one or more messages, or a signal."""
        dice = self._dice
        if dice.random() < 0.1:
            return bytes([VERSION, 1]) + msgspec.msgpack.encode(self._struct(dice.choice(self._signals), 0))
        count = dice.choice([1, 1, 1, 2, 5])
        messages = [self._struct(dice.choice(self._messages), 0) for _ in range(count)]
        return bytes([VERSION, MESSAGES]) + msgspec.msgpack.encode(messages)

    def broken(self) -> bytes:
        """The same, damaged."""
        return self._damaged(self.frame())

    def _damaged(self, frame: bytes) -> bytes:
        data = bytearray(frame)
        for _ in range(self._dice.choice([1, 1, 4])):
            data[self._dice.randrange(len(data))] = self._dice.randrange(256)
        return bytes(data[: self._dice.choice([len(data), len(data), len(data) // 2])])

    def _struct(self, of: inspect.StructType, depth: int) -> list[Any]:
        fields = [self._value(each.type, depth + 1, each.name) for each in of.fields]
        return [of.tag, *fields] if of.tag is not None else fields

    def _value(self, of: inspect.Type, depth: int, name: str = "") -> Any:
        dice = self._dice
        match of:
            case inspect.IntType():
                low, high = of.ge or 0, of.le if of.le is not None else 2**62
                found = dice.choice([low, high, *_EDGES, dice.randrange(low, high + 1)])
                return min(max(found, low), high)
            case inspect.FloatType():
                return dice.choice([0.0, -0.0, 1e308, -1e308, 5e-324, float("inf"), float("nan"), dice.random()])
            case inspect.BoolType():
                return dice.random() < 0.5
            case inspect.NoneType():
                return None
            case inspect.StrType():
                if "condition" in name or name in ("add", "drop"):
                    return self._condition()
                if name in ("source", "node") and dice.random() < 0.7:
                    return self._own
                return dice.choice(NAMES)[: of.max_length] or ("x" if of.min_length else "")
            case inspect.BytesType():
                return dice.randbytes(min(dice.choice(_SIZES) * 7, of.max_length or 999))
            case inspect.LiteralType():
                return dice.choice(list(of.values))
            case inspect.EnumType():
                return dice.choice(list(of.cls)).value
            case inspect.UnionType():
                return self._value(dice.choice(list(of.types)), depth, name)
            case inspect.TupleType():
                return [self._value(each, depth + 1, name) for each in of.item_types]
            case inspect.VarTupleType() | inspect.ListType() | inspect.CollectionType():
                size = 0 if depth > 6 else min(dice.choice(_SIZES if depth < 4 else [0, 1, 2]), of.max_length or 99)
                return [self._value(of.item_type, depth + 1, name) for _ in range(max(size, of.min_length or 0))]
            case inspect.DictType():
                return {dice.choice(WORDS): self._scalar() for _ in range(dice.choice([0, 1, 2, 5]))}
            case inspect.StructType():
                return self._struct(of, depth)
            case _:
                return self._scalar()

    def _condition(self) -> str:
        return self._dice.choice(CONDITIONS if self._dice.random() < 0.1 else CONDITIONS[:5])

    def _scalar(self) -> Any:
        dice = self._dice
        texts = ["", "b1", "\0", "x" * 999, "é\u202e"]
        return dice.choice([None, True, dice.choice(_EDGES), -1, 1.5, float("nan"), dice.choice(texts)])

    # MQTT ----------------------------------------------------------------------------------------

    def packet(self) -> bytes:
        """What a client of MQTT 5 may say, with absurd contents."""
        return encode(self._packet(), 5)

    def broken_packet(self) -> bytes:
        return self._damaged(self.packet())

    def _packet(self) -> Packet:
        dice = self._dice
        number = dice.choice([1, 2, 3, 65_535, dice.randrange(1, 65_536)])
        kind = dice.randrange(10)
        if kind < 5:
            topic = dice.choice(["a", "/", "//", "a/b/" * 50 + "c", "é", "$SYS/x", "stock/ibm", " ", "orders"])
            given: dict[str, Any] = {"user_property": [(dice.choice(WORDS), self._condition())]}
            if dice.random() < 0.3:
                given["message_expiry_interval"] = dice.choice([0, 1, 2**32 - 1])
            if dice.random() < 0.3:
                given["content_type"] = "application/json"
            payload = dice.choice([b"", b"{" * 99, b'{"a":' * 40 + b"1" + b"}" * 40, dice.randbytes(500)])
            return PublishPacket(topic, payload, dice.choice([0, 0, 1]), dice.random() < 0.2, False, number, given)
        if kind < 8:
            filters = ["#", "+/+/#", "a/#/b", "", "$share/g/a", "a" * 999, "+" * 5, "/" * 200, "a/+", "$SYS/#"]
            asked = [AskedFilter(dice.choice(filters) or "x", dice.randrange(3)) for _ in range(dice.choice([1, 3, 9]))]
            where = {"user_property": [("$where", self._condition())]} if dice.random() < 0.5 else {}
            return Subscribe(number, tuple(asked), where)
        if kind == 8:
            return Unsubscribe(number, ("#", "nothing"))
        return PublishAck(dice.choice(["puback", "pubrel", "pubcomp"]), number)

    def request(self) -> bytes:
        """For the door of /metrics."""
        dice = self._dice
        line = dice.choice([b"GET /metrics HTTP/1.1", b"HEAD /health HTTP/1.0", b"POST / HTTP/9.9", b"\0" * 99, b""])
        return line + b"\r\n" + b"X: " + dice.randbytes(20).hex().encode() * dice.choice([1, 50]) + b"\r\n\r\n"


def _members(union: Any) -> list[inspect.StructType]:
    found = inspect.type_info(union)
    types = found.types if isinstance(found, inspect.UnionType) else (found,)
    return [each for each in types if isinstance(each, inspect.StructType)]
