"""What a match job has done, whichever engine did it."""

from dataclasses import dataclass

from holdfast.pipeline.engine import EngineName


@dataclass(frozen=True)
class MatchOutcome:
    events: int
    subscriptions: int
    pairs: int
    rejected: int
    indexes: int  # 1, or the number of shards
    index_bytes: int
    seconds: float
    task_seconds: tuple[float, ...]
    warnings: tuple[str, ...]
    engine: EngineName = "spark"
    plan: str = ""  # Spark's, if it was asked for
