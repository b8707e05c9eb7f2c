"""The name under which version 0.1 documents `holdfast.books.runs`; it warns, and goes with 0.3."""

import warnings

from holdfast.books.runs import Run

__all__ = ["Run"]

warnings.warn("holdfast.wire.runs is now holdfast.books.runs", DeprecationWarning, stacklevel=2)
