"""Numbers as runs of bits: fields of known width, Rice codes for what is usually small, and small subsets.

A Rice code with parameter k writes a number's upper part in ones, a zero, and its k lower bits: short when k fits the
numbers, and never longer than a run of 24 ones and 64 bits. Reading raises PeerError when the bits run out.
"""

from collections.abc import Sequence

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

    def rice(self, value: int, k: int) -> None:
        upper = value >> k
        if upper < _ONES_MAX:
            self.put((1 << upper) - 1 << 1, upper + 1)
            self.put(value & (1 << k) - 1, k)
        else:
            self.put((1 << _ONES_MAX) - 1, _ONES_MAX)
            self.put(value, _ESCAPED_BITS)

    def subset(self, members: Sequence[int], size: int, count_k: int) -> None:
        """Which of `size` things, in rising order: how many, then the gaps between them."""
        self.rice(len(members), count_k)
        at, left = 0, len(members)
        for member in members:
            gap, k = member - at, _gap_k(size - at, left)
            upper = gap >> k
            if upper < _ONES_MAX:  # as in `rice`, in one step: filters have dozens of members
                self.put(((1 << upper) - 1 << 1) << k | gap & (1 << k) - 1, upper + 1 + k)
            else:
                self.rice(gap, k)
            at, left = member + 1, left - 1

    def to_bytes(self) -> bytes:
        padding = -self.bits % 8
        return (self.value << padding).to_bytes((self.bits + padding) // 8, "big")


class BitReader:
    __slots__ = ("_at", "_data", "_end")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._end = 8 * len(data)

    def take(self, bits: int) -> int:
        value = self._peek(bits)
        self._at += bits
        return value

    def rice(self, k: int) -> int:
        window = min(_ONES_MAX, self._end - self._at)
        zeros = ~self._peek(window) & (1 << window) - 1
        ones = window - zeros.bit_length()
        if ones == window:
            self._at += window
            if window < _ONES_MAX:
                raise PeerError("a truncated record")
            return self.take(_ESCAPED_BITS)
        self._at += ones + 1
        return ones << k | self.take(k)

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

    def end(self) -> None:
        """Nothing may follow but the zeros that fill the last byte."""
        left = self._end - self._at
        if left >= 8 or self._peek(left):
            raise PeerError("a record with bytes after its end")

    def _peek(self, bits: int) -> int:
        end = self._at + bits
        if end > self._end:
            raise PeerError("a truncated record")
        last = (end + 7) >> 3
        return int.from_bytes(self._data[self._at >> 3 : last], "big") >> (8 * last - end) & (1 << bits) - 1


def _gap_k(remaining: int, left: int) -> int:
    """The parameter that fits gaps between `left` things spread evenly over what remains."""
    return max(0, (remaining // (left + 1)).bit_length() - 1)
