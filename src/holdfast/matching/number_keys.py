"""Integers that are the keys of a compiled level, as an array: as Python objects they take five times as much."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt


class NumberKeys:
    """Like a list of integers, in which some become None."""

    def __init__(self, numbers: npt.NDArray[np.int64]) -> None:
        self._numbers = numbers
        self._gone: set[int] = set()  # places

    def __len__(self) -> int:
        return self._numbers.size

    def __getitem__(self, at: int) -> Any:
        return None if at in self._gone else int(self._numbers[at])

    def __setitem__(self, at: int, gone: None) -> None:
        self._gone.add(at)

    def __iter__(self) -> Iterator[Any]:
        return map(self.__getitem__, range(len(self)))

    def at(self, places: npt.NDArray[np.int32]) -> list[Any]:
        """The keys at these places."""
        found: list[Any] = self._numbers[places].tolist()
        if self._gone:
            return [None if at in self._gone else key for at, key in zip(places.tolist(), found, strict=True)]
        return found
