"""Makes `format("holdfast")` known to Spark without a call to register it.

Spark imports every installed package whose name begins with `pyspark_` and takes its `DefaultSource`.
"""

from holdfast.pipeline.live.source import HoldfastSource as DefaultSource

__all__ = ["DefaultSource"]
