"""Whether SQLite's write-ahead log holds all that was committed.

SQLite reads the log up to the first frame whose checksum is wrong and drops the rest without a word, because a crash
leaves such an end. Damage in the middle looks the same and costs all later transactions. So we read the log first: a
transaction is begun only when the one before it is safe on the disk, so what follows a later one proves that the frame
was intact once. The format is documented at https://sqlite.org/fileformat2.html#the_write_ahead_log.
"""

from array import array
from dataclasses import dataclass
from functools import cache
from operator import mul
from pathlib import Path
from sys import byteorder
from typing import BinaryIO

_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
_MAGIC = 0x377F0682  # with the last bit: checksums over big-endian words
_FORMAT = 3_007_000
_PAGE_BYTES = range(512, 65_537)
_MASK = 2**32 - 1


@dataclass(frozen=True)
class LogState:
    damaged: str = ""  # how it is known that something is missing that was committed
    incomplete: str = ""  # the end cannot be read: a transaction that was never finished, or a damage of the last one


@cache
def _weights(words: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, int, int, int]]:
    """SQLite's checksum as two scalar products: weights of the words, and of the two sums before them.

    For each pair of words (x, y) it is s0 += x + s1, then s1 += y + s0; so the last words count least.
    """
    first: list[int] = []
    second: list[int] = []
    a, b, c, d = 1, 0, 0, 1  # what the sums before count for in the sums after
    for _ in range(words // 2):
        first += [b, (a + b) & _MASK]  # y and x of a pair: from the last pair to the first
        second += [d, (c + d) & _MASK]
        a, b = (a + b) & _MASK, (a + 2 * b) & _MASK
        c, d = (c + d) & _MASK, (c + 2 * d) & _MASK
    return tuple(reversed(first)), tuple(reversed(second)), (a, b, c, d)


def _summed(data: bytes, big_endian: bool, before: tuple[int, int]) -> tuple[int, int]:
    words = array("I", data)
    if big_endian == (byteorder == "little"):
        words.byteswap()
    first, second, (a, b, c, d) = _weights(len(words))
    s0, s1 = before
    return (
        (sum(map(mul, first, words)) + a * s0 + b * s1) & _MASK,
        (sum(map(mul, second, words)) + c * s0 + d * s1) & _MASK,
    )


def _numbers(data: bytes) -> list[int]:
    return [int.from_bytes(data[at : at + 4], "big") for at in range(0, len(data), 4)]


def check_log(path: Path) -> LogState:
    with path.open("rb") as log:
        header = log.read(_HEADER_BYTES)
        has_frames = path.stat().st_size > _HEADER_BYTES
        if len(header) < _HEADER_BYTES or not has_frames:
            return LogState()
        magic, version, page_bytes, _, *salts, s0, s1 = _numbers(header)
        big_endian = bool(magic & 1)
        sums = _summed(header[:24], big_endian, (0, 0))
        if magic | 1 != _MAGIC | 1 or version != _FORMAT or page_bytes not in _PAGE_BYTES or sums != (s0, s1):
            return LogState(damaged="its header cannot be read, so all that was committed to it would be lost")
        return _check_frames(log, page_bytes, salts, big_endian, sums)


def _check_frames(
    log: BinaryIO, page_bytes: int, salts: list[int], big_endian: bool, sums: tuple[int, int]
) -> LogState:
    good = True  # up to here
    committed = False  # behind the first bad frame, a transaction ends
    at = bad_at = 0
    while len(frame := log.read(_FRAME_HEADER_BYTES + page_bytes)) == _FRAME_HEADER_BYTES + page_bytes:
        at += 1
        _, pages, *rest = _numbers(frame[:_FRAME_HEADER_BYTES])
        ours = rest[:2] == salts
        if good:
            sums = _summed(frame[:8] + frame[_FRAME_HEADER_BYTES:], big_endian, sums)
            good = ours and sums == (rest[2], rest[3])
            bad_at = at
        if not good and ours:
            if committed:
                return LogState(damaged=f"frame {bad_at} fails its checksum, and transactions after it would be lost")
            committed = pages > 0
    if committed:
        return LogState(incomplete=f"frame {bad_at} of its last transaction fails its checksum")
    return LogState()
