"""What `dir()` shows of an object that applications hold: its interface, and not what drivers call or keep in it."""

from collections.abc import Iterable

_CALLBACKS = ("on_state",)  # that are for applications; the others are what sessions and drivers call


def public_names(names: Iterable[str], *inner: str) -> list[str]:
    """Of these names those that are public, without some that only we need."""
    return sorted(each for each in names if _is_public(each) and each not in inner)


def _is_public(name: str) -> bool:
    if name.startswith("_"):
        return name.startswith("__")
    return not name.startswith("on_") or name in _CALLBACKS
