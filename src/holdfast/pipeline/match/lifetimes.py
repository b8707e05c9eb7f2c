"""Events of a stream that live for so long: what comes later is dropped, and what comes twice is matched once.

Spark's watermark says how far time has come: the greatest event time up to the batch before last, less the lifetime. An
event older than that is past its life. Keys are remembered as long as an event may live, so the state stays bounded,
and is part of the checkpoint like everything else.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from holdfast.model.errors import InputError


class Lifetime(NamedTuple):
    time: str  # the column
    seconds: float

    def applied(self, events: DataFrame, key: Sequence[str]) -> DataFrame:
        kinds = {field.name: field.dataType for field in events.schema}
        if not isinstance(kinds.get(self.time), TimestampType):
            there = kinds[self.time].simpleString() if self.time in kinds else "not there"
            raise InputError(f"--time: expected a column of type timestamp, and {self.time} is {there}")
        alive = events.withWatermark(self.time, f"{self.seconds:g} seconds")
        if not key:
            raise InputError("--lifetime: expected --key, by which repeats of an event are known")
        absent = [name for name in key if name not in kinds]
        if absent:
            raise InputError(f"--lifetime: expected columns of the events as --key, {', '.join(absent)} is none")
        return alive.where(F.col(self.time).isNotNull()).dropDuplicatesWithinWatermark(list(key))
