"""Holdfast in your own Spark jobs: `holdfast.spark.match(events, subscriptions)`.

Functions from DataFrames to DataFrames. They work with the session that the DataFrames belong to, on one machine or on
a cluster.
"""

from holdfast.model.extras import extras_named, require

require("pyspark")
with extras_named():
    from holdfast.pipeline.match.frames import match, match_counts
    from holdfast.pipeline.session import session

__all__ = ["match", "match_counts", "session"]
