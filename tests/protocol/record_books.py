"""Codebooks of every encoding and size, learned from nothing, a little or much: what a property must hold for."""

from collections.abc import Callable, Iterator, Mapping
from random import Random

from hypothesis import strategies as st

from holdfast.protocol.records import BloomSettings, Codebook, ColumnSettings, first_book, learned_book
from holdfast.protocol.records.learning import Encoding
from tests.language.generators import ATTRIBUTES, event

NAMES = tuple(sorted(each.name for each in ATTRIBUTES))
_PARTS = ("prefix", "suffix", "grams")

ENCODINGS: dict[str, Encoding] = {
    **{f"bloom {bits}": BloomSettings(bits) for bits in (64, 128, 256)},
    "bloom 256, all hashed": BloomSettings(256, direct=False),
    "bloom 256, as in the paper": BloomSettings(256, direct=False, hashes=2),
    "bloom 128, optional": BloomSettings(128, optional=NAMES),
    "bloom 256, texts": BloomSettings(256, texts=(("symbol", _PARTS), ("team", ("grams",)), ('odd "name"', _PARTS))),
    **{f"columns of {bits} bits": ColumnSettings(bits) for bits in (3, 4, 8, 12)},
    "columns, hashed": ColumnSettings(8, texts="hashed"),
    "columns, coarsely hashed": ColumnSettings(3, texts="hashed"),
    "columns, short book": ColumnSettings(8, book_bytes=150),
}


def learned(encoding: Encoding, events: int, seed: int = 1, focus: tuple[str, ...] | None = None) -> Codebook:
    dice = Random(f"{seed}/{events}")
    return learned_book(encoding, [event(dice) for _ in range(events)], focus)


_LEARNED: dict[str, Callable[[Encoding], Codebook]] = {
    "first": first_book,
    "after 1": lambda encoding: learned(encoding, 1),
    "after 8": lambda encoding: learned(encoding, 8),
    "after 200": lambda encoding: learned(encoding, 200),
    "another 200": lambda encoding: learned(encoding, 200, seed=2),
    "focused": lambda encoding: learned(encoding, 60, focus=NAMES[::2]),
}


class _Epochs(Mapping[str, Codebook]):
    """Learned when they are first asked for: who only collects the tests needs none."""

    _names = tuple(f"{name}, {what}" for name in ENCODINGS for what in _LEARNED)

    def __init__(self) -> None:
        self._books: dict[str, Codebook] = {}

    def __getitem__(self, epoch: str) -> Codebook:
        if epoch not in self._books:
            name, _, what = epoch.rpartition(", ")
            self._books[epoch] = _LEARNED[what](ENCODINGS[name])
        return self._books[epoch]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


EPOCHS = _Epochs()


def books() -> st.SearchStrategy[Codebook]:
    return st.sampled_from(sorted(EPOCHS)).map(EPOCHS.__getitem__)
