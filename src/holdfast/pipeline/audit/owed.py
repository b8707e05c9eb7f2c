"""Ground truth: who wanted which publication, worked out from the trace with the Spark matcher.

Every publication is matched with every subscription of its run, whenever that was live; each pair comes out with the
times between which the subscription lived. What is owed, and what may be delivered, follows from those times alone.
"""

from collections.abc import Iterator, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from holdfast.model.errors import InputError
from holdfast.pipeline.audit.trace_tables import TraceRun, together
from holdfast.pipeline.match.frames import match
from holdfast.pipeline.match.subscriptions_table import InvalidSubscriptionsError, read_subscriptions

_PAIR = ["run", "subscriber", "source", "seq", "published_us", "from_us", "until_us"]
# The events' own columns, under names that no condition can take for an attribute, and what they are called here.
_KEYS = {"audit key: source": "source", "audit key: seq": "seq", "audit key: time_us": "published_us"}


def wanted(runs: Sequence[TraceRun]) -> DataFrame:
    """One row per publication and subscription that matches it: subscriber, publication, and the times of both."""
    subscriptions = together(runs, "subscriptions")
    lifetimes = subscriptions.withColumnRenamed("number", "subscription").drop("id", "condition")
    # Key: run and subscription. Spark broadcasts them unless there are very many, so skew does not matter.
    return reduce(DataFrame.unionAll, map(_matches, runs)).join(lifetimes, ["run", "subscription"]).select(*_PAIR)


def _matches(run: TraceRun) -> DataFrame:
    """Publications of one run with the numbers of the subscriptions that match them, whenever those were live."""
    asked = run.tables["subscriptions"].select(F.col("number").alias("id"), "condition")
    try:
        groups = [match(each, asked, key=list(_KEYS)).toDF(*_KEYS.values(), "subscription") for each in _events(run)]
    except InvalidSubscriptionsError as error:
        raise InputError(
            f"{run.folder}: damaged, {error.number} not valid; by their rows in the table:\n{error.listed}"
        ) from None
    return reduce(DataFrame.unionAll, groups).withColumn("run", F.lit(run.label))


def expired(runs: Sequence[TraceRun]) -> DataFrame:
    """Publications that some node threw away because their lifetime was over."""
    incidents = together(runs, "incidents").where("kind = 'expired'")
    return incidents.select("run", "source", F.col("first").alias("seq")).distinct()


def _events(run: TraceRun) -> Iterator[DataFrame]:
    """The publications' attributes under their own names. Usually one table.

    An attribute with values of several types has several columns; rows are then grouped so that in each group every
    attribute has one. Only attributes that a condition mentions matter.
    """
    publications = run.tables["publications"]
    attributes = run.attributes
    if any(len(columns) > 1 for columns in attributes.values()):
        asked = run.tables["subscriptions"].select(F.col("number").alias("id"), "condition")
        mentioned = read_subscriptions(asked).attributes
        attributes = {name: columns for name, columns in attributes.items() if name in mentioned}
    others = [column for columns in attributes.values() for column in columns[1:]]
    if not others:
        yield _named(publications, {name: columns[0] for name, columns in attributes.items()})
        return
    filled = F.array(*(_column(publications, column).isNotNull() for column in others))
    for row in publications.select(filled.alias("filled")).distinct().collect():  # few: one per mixture of types
        used = {column for column, there in zip(others, row.filled, strict=True) if there}
        chosen = {name: next(filter(used.__contains__, columns), columns[0]) for name, columns in attributes.items()}
        yield _named(publications.where(filled == F.array(*map(F.lit, row.filled))), chosen)


def _named(publications: DataFrame, columns: dict[str, str]) -> DataFrame:
    keys = [F.col(name.removeprefix("audit key: ")).alias(name) for name in _KEYS]
    return publications.select(*keys, *(_column(publications, each).alias(name) for name, each in columns.items()))


def _column(table: DataFrame, name: str) -> Column:
    quoted = name.replace("`", "``")
    column = F.col(f"`{quoted}`")
    # Beyond 64 signed bits there are only values of at least 2**63, which doubles still order among smaller numbers.
    return column.cast("double") if table.schema[name].dataType.typeName() == "decimal" else column
