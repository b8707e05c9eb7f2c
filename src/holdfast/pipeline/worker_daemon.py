"""The process that Spark forks its Python workers from, with what their tasks import.

PySpark's own has imported nothing, because a process in which threads run must not be forked. So every worker imports
pandas, Arrow and numba anew, for most of a second, and after each task it looks for garbage in all that they have made.
Ours imports them before and lets the collector leave them alone. If a thread runs after that, PySpark's own takes over.
"""

import gc
import os
import sys
from importlib import import_module

_TASKS = "pyspark.worker"  # other kinds of worker plan a data source, once
_OF_TASKS = ("pandas", "pyarrow.compute", "numba", "pyspark.sql.pandas.serializers", "pyspark.sql.pandas.types")


def main() -> None:
    worker = sys.argv[1]
    os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"  # of an allocator that Arrow has and does not use
    for each in (worker, *_OF_TASKS) if worker == _TASKS else (worker,):
        import_module(each)
    if len(os.listdir("/proc/self/task")) > 1:
        os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", worker])
    from pyspark.daemon import manager  # noqa: PLC0415 - of PySpark, which not everybody has

    gc.collect()
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
