"""How good a Bloom filter can be: closed forms that pick the number of hashes and judge what was measured.

`bits` is the size of the hashed part, `items` how many tags an event has, `hashes` how many bits a tag sets.
"""

from math import log

HASHES_MAX = 8  # more hardly helps, and a fuller filter is longer on the wire


def fill_ratio(bits: int, hashes: int, items: int) -> float:
    """The share of bits that are set."""
    return 1 - (1 - 1 / bits) ** (hashes * items)


def false_positive_ratio(bits: int, hashes: int, items: int, absent: int = 1) -> float:
    """How often `absent` tags that an event does not have all seem to be there."""
    return fill_ratio(bits, hashes, items) ** (hashes * absent)


def best_hashes(bits: int, items: int) -> int:
    """The number of hashes that makes false positives rarest: half of the bits are then set."""
    return max(1, min(HASHES_MAX, round(bits / items * log(2))))
