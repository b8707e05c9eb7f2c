"""Warnings for whoever calls us: each said once, and at the line of the application, not at one of ours."""

import sys
import warnings

from holdfast.model.errors import HoldfastWarning

_WARNED_MAX = 1_000  # warnings that are not said again; a program with more of them has other worries
_PACKAGE = __name__.partition(".")[0]

_warned: set[str] = set()


def warn_once(message: str) -> None:
    """Warn the application, unless it was warned of this before."""
    if message in _warned:
        return
    if len(_warned) >= _WARNED_MAX:
        _warned.clear()
    _warned.add(message)
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, HoldfastWarning, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module == _PACKAGE or module.startswith(f"{_PACKAGE}.")
