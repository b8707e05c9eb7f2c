"""Our package for the tasks of a cluster: a zip of its files that Spark hands to every executor.

A function that runs in a task is sent by its name, so the task must be able to import it. The executors' Python needs
our dependencies but not us: what arrives is the driver's own version, whatever else is installed there.

Streaming sources cannot be reached this way: Spark starts them without the shipped files; see docs/cluster.md.
"""

import atexit
import tempfile
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZipFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGE = Path(__file__).parents[1]
_NOT_SHIPPED = ("__pycache__", ".nbi", ".nbc")  # what Python and numba keep beside the sources


def needs_shipping(master: str) -> bool:
    """Whether tasks run elsewhere than in processes that see our installation."""
    return not (master == "local" or master.startswith("local["))


def is_connected(spark: "SparkSession") -> bool:
    """Whether it is a client of a server of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def tasks_run_here(spark: "SparkSession") -> bool:
    """Whether the workers see our files. Spark Connect's may be anywhere, whatever its server calls its master."""
    if is_connected(spark):
        return False
    return not needs_shipping(spark.conf.get("spark.master", "") or "")


def ship_where_needed(spark: "SparkSession", package: Path = _PACKAGE) -> None:
    """`package` is the folder of another package whose functions run in tasks, such as the studies'."""
    if tasks_run_here(spark) or not package.is_dir():  # imported from a zip: spark-submit --py-files has shipped it
        return
    folder = Path(tempfile.mkdtemp(prefix="holdfast-ship-"))
    atexit.register(rmtree, folder, ignore_errors=True)  # not before: executors fetch it when they start
    spark.addArtifacts(str(package_zip(folder, f"{package.name}_of_the_driver.zip", package)), pyfile=True)


def package_zip(folder: Path, name: str = "holdfast.zip", package: Path = _PACKAGE) -> Path:
    """The package as a zip that Python can import from, also for `spark-submit --py-files`."""
    archive = folder / name
    with ZipFile(archive, "w", ZIP_DEFLATED) as file:
        for path in sorted(package.rglob("*")):
            if path.is_file() and not any(each in str(path) for each in _NOT_SHIPPED):
                file.write(path, path.relative_to(package.parent))
    return archive
