"""Who somebody is, once that is proved: a name, the groups that it belongs to, and until when.

A name stands for itself and for all names below it: who is `desk` may call its nodes `desk`, `desk.1` or `desk.emea.7`.
So one certificate or token serves several processes, and each of them has a name of its own.
"""

from dataclasses import dataclass

_ANONYMOUS_NAMES = ("client-", "anonymous.")  # what a client without a name is called, and what it may call itself


@dataclass(frozen=True)
class Principal:
    name: str  # empty: nobody has proved anything
    groups: tuple[str, ...] = ()
    expires_s: float | None = None  # by the time of day; None: it does not
    is_broker_itself: bool = False  # a client that the broker runs for its own work, which may do anything


ANONYMOUS = Principal("")


def may_be_called(name: str, node: str) -> bool:
    """Whether somebody of this name may run a node of that name."""
    return node == name or node.startswith(f"{name}.")


def is_nobodys(node: str) -> bool:
    """Whether a node of this name need not prove anything: no certificate or token is issued for such a name."""
    return node == "anonymous" or node.startswith(_ANONYMOUS_NAMES)
