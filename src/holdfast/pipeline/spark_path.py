"""A local path in the words that Spark understands."""

from pathlib import Path


def spark_path(folder: Path) -> str:
    """The folder as Spark takes it: a name such as `run[7]` is not meant as a pattern."""
    escaped = "".join(f"\\{letter}" if letter in "*?[]{}\\" else letter for letter in str(folder.resolve()))
    return f"file:{escaped}"
