"""Events that a stream has dropped because they came too late, told as Spark reports its batches."""

import sys
from collections.abc import Iterable, Mapping
from typing import Any


class DroppedEvents:
    def __init__(self) -> None:
        self._told = -1  # the last batch that was looked at

    def tell(self, progress: Iterable[Mapping[str, Any]]) -> None:
        for each in progress:
            if each["batchId"] <= self._told:
                continue
            self._told = each["batchId"]
            dropped = sum(state["numRowsDroppedByWatermark"] for state in each["stateOperators"])
            if dropped:
                words = "1 event came" if dropped == 1 else f"{dropped:,} events came"
                print(f"batch {self._told}: {words} later than the lifetime, and not matched", file=sys.stderr)
