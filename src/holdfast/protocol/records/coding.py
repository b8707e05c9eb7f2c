"""How the changes of a column are written shortest, judged by its codes in the events published last.

A code is predicted to be what it was in the event before, or what it usually is: topics that come and go are
predicted to be missing, an attribute that stays for a while to stay. What changes nearly always is written each time,
what changes often has a bit that says so, and what changes seldom is listed, so that two hundred quiet columns cost
two or three bits.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from operator import ne

from holdfast.protocol.records.columnar import ALWAYS, MASKED, SELDOM, Coding

_SELDOM_RATIO = 0.18  # below this, listing a change is shorter than a bit for every entry
_COUNT_K_MAX = 8


def coding_of(codes: Sequence[int], width: int) -> tuple[Coding, float]:
    """The shortest coding for a column with these codes, in the order of publication, and how often it changes."""
    counts = Counter(codes)
    usual = min(counts, key=lambda code: (-counts[code], code))
    total = len(codes)
    unusual_ratio = (total - counts[usual] + 0.5) / (total + 1)
    moves = sum(map(ne, codes, islice(codes, 1, None)))
    moved_ratio = (moves + 0.5) / total
    from_previous = moved_ratio < unusual_ratio
    ratio = moved_ratio if from_previous else unusual_ratio
    other = [code for code in counts if code != usual]
    only = other[0] if len(other) == 1 and not from_previous else None
    code_bits = width if only is None else 0
    if ratio < _SELDOM_RATIO:
        when = SELDOM
    elif 1 + ratio * code_bits < width:
        when = MASKED
    else:
        when, only = ALWAYS, None
    return Coding(when, from_previous, usual, only), ratio


def count_k_of(changes_mean: float) -> int:
    """The parameter that fits how many listed columns change in one entry."""
    return min(_COUNT_K_MAX, max(0, int(changes_mean).bit_length() - 1))
