"""The four levels at which figures are given: each pair of subscriber and publisher, each of the two, and the run."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

SCOPES = ("pair", "subscriber", "publisher", "run")
GROUP = ["scope", "run", "subscriber", "source"]  # together they name a group
NOBODY = ""  # in place of a subscriber or source that a level does not have; unlike null it equals itself in a join


def at_all_levels(rows: DataFrame) -> DataFrame:
    """Every row four times, once for each group that it belongs to."""
    subscriber, source, nobody = F.col("subscriber"), F.col("source"), F.lit(NOBODY)
    groups = [(subscriber, source), (subscriber, nobody), (nobody, source), (nobody, nobody)]
    structs = [_group(scope, *keys) for scope, keys in zip(SCOPES, groups, strict=True)]
    others = [name for name in rows.columns if name not in ("subscriber", "source")]
    return rows.select(*others, F.inline(F.array(*structs)))


def _group(scope: str, subscriber: Column, source: Column) -> Column:
    return F.struct(F.lit(scope).alias("scope"), subscriber.alias("subscriber"), source.alias("source"))
