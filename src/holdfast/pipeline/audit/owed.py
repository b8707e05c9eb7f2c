"""Ground truth: who wanted which publication, worked out from the trace with the matcher.

Every publication is matched with every subscription of its run, whenever that was active; each pair comes out with the
times between which the subscription was. What is owed, and what may be delivered, follows from those times alone.
"""

from holdfast.pipeline.audit.trace_tables import Trace
from holdfast.pipeline.engine import Relation


def wanted(trace: Trace) -> Relation:
    """One row per publication and subscription that matches it: subscriber, publication, and the times of both."""
    # Key: run and subscription. Spark broadcasts the subscriptions unless there are very many, so skew does not matter.
    return trace.engine.sql(f"""
        SELECT run, subscriber, source, seq, published_us, from_us, until_us, coalesce(expired, false) AS expired
        FROM (
            SELECT m.run, s.subscriber, m.source, m.seq, m.published_us, s.from_us, s.until_us
            FROM {trace.matches} AS m JOIN {trace.subscriptions} AS s
              ON m.run = s.run AND m.subscription = s.number
        ) AS pairs
        LEFT JOIN {_expired(trace)} AS expired USING (run, source, seq)""")


def _expired(trace: Trace) -> Relation:
    """Publications that some node threw away because their lifetime was over."""
    # Few events expire; when many do, none of them has more rows to join than subscribers.
    return trace.engine.sql(f"""
        SELECT DISTINCT run, source, first AS seq, true AS expired FROM {trace.incidents} WHERE kind = 'expired'""")
