"""Numbers as runs of bits: fields of known width, Rice codes for what is usually small, and small subsets.

A Rice code with parameter k writes a number's upper part in ones, a zero, and its k lower bits: short when k fits the
numbers, and never longer than a run of 24 ones and 64 bits. Reading raises PeerError when the bits run out.
"""

from collections.abc import Iterable, Sequence

from holdfast.model.errors import PeerError

_ONES_MAX = 24  # a longer run costs more than writing the number out
_ESCAPED_BITS = 64


class BitWriter:
    __slots__ = ("bits", "value")

    def __init__(self) -> None:
        self.value = 0
        self.bits = 0

    def put(self, value: int, bits: int) -> None:
        self.value = self.value << bits | value
        self.bits += bits

    def put_each(self, fields: Iterable[tuple[int, int]]) -> None:
        """Values with their widths, one after the other."""
        joined, length = self.value, self.bits
        for value, bits in fields:
            joined = joined << bits | value
            length += bits
        self.value, self.bits = joined, length

    def rice(self, value: int, k: int) -> None:
        self.rice_each((value,), k)

    def rice_each(self, values: Iterable[int], k: int) -> None:
        """The same for many, all of them none or more."""
        joined, length, lower = self.value, self.bits, (1 << k) - 1
        for value in values:
            upper = value >> k
            if upper < _ONES_MAX:
                joined = (joined << upper + 1 | (1 << upper + 1) - 2) << k | value & lower
                length += upper + 1 + k
            else:
                joined = (joined + 1 << _ONES_MAX) - 1 << _ESCAPED_BITS | value
                length += _ONES_MAX + _ESCAPED_BITS
        self.value, self.bits = joined, length

    def subset(self, members: Sequence[int], size: int, count_k: int) -> None:
        """Which of `size` things, in rising order: how many, then the gaps between them."""
        at, left = 0, len(members)
        self.rice_each((left,), count_k)
        joined, length = self.value, self.bits
        for member in members:
            k, gap = _gap_k(size - at, left), member - at
            upper = gap >> k
            if upper >= _ONES_MAX:
                self.value, self.bits = joined, length
                self.rice_each((gap,), k)
                joined, length = self.value, self.bits
            else:
                joined = (joined << upper + 1 | (1 << upper + 1) - 2) << k | gap & (1 << k) - 1
                length += upper + 1 + k
            at, left = member + 1, left - 1
        self.value, self.bits = joined, length

    def to_bytes(self) -> bytes:
        padding = -self.bits % 8
        return (self.value << padding).to_bytes((self.bits + padding) // 8, "big")


class BitReader:
    """The bits lie in a text of zeros and ones, because Python finds and cuts in a text several times as fast as it
    shifts and masks in an integer.
    """

    __slots__ = ("_at", "_bits")

    def __init__(self, data: bytes) -> None:
        self._bits = bin(int.from_bytes(b"\1" + data, "big"))[3:]  # a leading one keeps the zeros behind it
        self._at = 0

    def take(self, bits: int) -> int:
        if not bits:
            return 0
        part = self._bits[self._at : self._at + bits]
        if len(part) < bits:
            raise PeerError("a truncated record")
        self._at += bits
        return int(part, 2)

    def rice(self, k: int) -> int:
        at = self._at
        zero = self._bits.find("0", at, at + _ONES_MAX)
        if zero < 0:
            if self._bits.count("1", at, at + _ONES_MAX) < _ONES_MAX:
                raise PeerError("a truncated record")
            self._at = at + _ONES_MAX
            return self.take(_ESCAPED_BITS)
        self._at = end = zero + 1 + k
        if not k:
            return zero - at
        part = self._bits[zero + 1 : end]
        if len(part) < k:
            raise PeerError("a truncated record")
        return zero - at << k | int(part, 2)

    def subset(self, size: int, count_k: int) -> list[int]:
        count = self.rice(count_k)
        if count > size:
            raise PeerError(f"{count} of {size} in a record")
        members = []
        at = 0
        for left in range(count, 0, -1):
            at += self.rice(_gap_k(size - at, left))
            if at >= size:
                raise PeerError(f"number {at} of {size} in a record")
            members.append(at)
            at += 1
        return members

    @property
    def at(self) -> int:
        """How many bits were read."""
        return self._at

    def since(self, at: int) -> str:
        """What was read since then, as a text."""
        return self._bits[at : self._at]

    def skip(self, text: str) -> bool:
        """Go past these bits, if they are the next."""
        found = self._bits.startswith(text, self._at)
        if found:
            self._at += len(text)
        return found

    def end(self) -> None:
        """Nothing may follow but the zeros that fill the last byte."""
        if len(self._bits) - self._at >= 8 or "1" in self._bits[self._at :]:
            raise PeerError("a record with bytes after its end")


def _gap_k(remaining: int, left: int) -> int:
    """The parameter that fits gaps between `left` things spread evenly over what remains."""
    k = (remaining // (left + 1)).bit_length() - 1
    return k if k > 0 else 0
