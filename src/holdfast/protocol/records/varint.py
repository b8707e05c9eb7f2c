"""Numbers and texts as bytes: what the heads of records and the codebooks are written in.

A whole number takes seven bits a byte, the lower ones first. Reading raises only PeerError.
"""

import struct

from holdfast.model.errors import PeerError

_NUMBER_BYTES_MAX = 10  # 64 bits


class OctetWriter:
    __slots__ = ("_out",)

    def __init__(self) -> None:
        self._out = bytearray()

    def byte(self, value: int) -> None:
        self._out.append(value)

    def number(self, value: int) -> None:
        while value > 127:
            self._out.append(value & 127 | 128)
            value >>= 7
        self._out.append(value)

    def signed(self, value: int) -> None:
        self.number(value << 1 if value >= 0 else ~value << 1 | 1)

    def double(self, value: float) -> None:
        self._out += struct.pack(">d", value)

    def raw(self, value: bytes) -> None:
        self._out += value

    def text(self, value: str) -> None:
        """Any Python string, lone surrogates too: an attribute may hold them, and it must not stop a record."""
        encoded = value.encode("utf-8", "surrogatepass")
        self.number(len(encoded))
        self._out += encoded

    def to_bytes(self) -> bytes:
        return bytes(self._out)


class OctetReader:
    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def byte(self) -> int:
        return self.raw(1)[0]

    def number(self, most: int) -> int:
        value = 0
        for place in range(_NUMBER_BYTES_MAX):
            byte = self.byte()
            value |= (byte & 127) << 7 * place
            if byte < 128:
                if value > most:
                    raise PeerError(f"{value} in a record where at most {most} is allowed")
                return value
        raise PeerError("a number of more than ten bytes in a record")

    def signed(self, most: int) -> int:
        value = self.number(2 * most + 1)
        return ~(value >> 1) if value & 1 else value >> 1

    def double(self) -> float:
        (value,) = struct.unpack(">d", self.raw(8))
        return float(value)

    def raw(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise PeerError("a truncated record")
        value = self._data[self._at : end]
        self._at = end
        return value

    def text(self, bytes_max: int) -> str:
        encoded = self.raw(self.number(bytes_max))
        try:
            return encoded.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise PeerError("a text in a record that is not UTF-8") from None

    def rest(self) -> bytes:
        return self.raw(len(self._data) - self._at)

    def end(self) -> None:
        if self._at != len(self._data):
            raise PeerError("a codebook with bytes after its end")
