"""The fields that packets are made of: integers, texts, binary data; read strictly, within a bound, and written."""

import re
from typing import Final

from holdfast.model.errors import MisuseError
from holdfast.mqtt.reasons import malformed

VARINT_MAX: Final = 268_435_455  # four bytes of seven bits
FIELD_BYTES_MAX: Final = 65_535  # a length is 16 bits

# Characters that a text SHOULD NOT hold. They are refused in names, and allowed in values, where a line end is of use.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")


def is_printable(text: str) -> bool:
    """Whether a text may be a name: no control characters and no code points that are no characters."""
    return _CONTROLS.search(text) is None and (text.isascii() or not any(ord(c) & 0xFFFE == 0xFFFE for c in text))


class FieldReader:
    """Reads fields one after the other; a MqttError (malformed) when one is not there."""

    def __init__(self, data: bytes | memoryview, at: int = 0, end: int | None = None) -> None:
        self._data = data
        self._at = at
        self._end = len(data) if end is None else end

    @property
    def left(self) -> int:
        return self._end - self._at

    def take(self, count: int) -> bytes:
        at = self._at
        if count > self._end - at:
            raise malformed("a field ends beyond its packet")
        self._at = at + count
        return bytes(self._data[at : at + count])

    def rest(self) -> bytes:
        return self.take(self._end - self._at)

    def part(self, count: int) -> "FieldReader":
        """A reader of the next bytes, which are then passed."""
        at = self._at
        self.take(count)
        return FieldReader(self._data, at, at + count)

    def byte(self) -> int:
        return self.take(1)[0]

    def short(self) -> int:
        return int.from_bytes(self.take(2), "big")

    def long(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def varint(self) -> int:
        value = 0
        for shift in (0, 7, 14, 21):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if not byte and shift:
                    raise malformed("a variable byte integer in more bytes than it needs")
                return value
        raise malformed("a variable byte integer of more than four bytes")

    def binary(self) -> bytes:
        return self.take(self.short())

    def text(self) -> str:
        return text_of(self.binary())

    def name(self) -> str:
        """A text without control characters, as a topic is."""
        return name_of(self.binary())


def text_of(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise malformed("a text that is not UTF-8") from None
    if "\x00" in text:
        raise malformed("a text with U+0000")
    return text


def name_of(data: bytes) -> str:
    text = text_of(data)
    if not is_printable(text):
        raise malformed("a name with control characters")
    return text


def varint(value: int) -> bytes:
    if not 0 <= value <= VARINT_MAX:
        raise MisuseError(f"{value} does not fit in a variable byte integer")
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        out.append(low | 0x80 if value else low)
        if not value:
            return bytes(out)


def short(value: int) -> bytes:
    return value.to_bytes(2, "big")


def long(value: int) -> bytes:
    return value.to_bytes(4, "big")


def binary(value: bytes) -> bytes:
    if len(value) > FIELD_BYTES_MAX:
        raise MisuseError(f"{len(value)} bytes do not fit in a field")
    return short(len(value)) + value


def text(value: str) -> bytes:
    return binary(value.encode())
