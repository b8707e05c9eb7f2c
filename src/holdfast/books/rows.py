"""Rows of the trace's tables, as drivers hand them to whoever keeps the books."""

from typing import Any

Row = tuple[Any, ...]  # the table's name, then its columns
