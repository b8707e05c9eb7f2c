"""What a broker's driver asks of a durable store.

`holdfast.testing.stores` is the kit that every store has to pass.
"""

from collections.abc import Sequence
from typing import Protocol

from holdfast.model.errors import HoldfastError
from holdfast.protocol.store_changes import Change, Stored


class StoreError(HoldfastError):
    """The store cannot take what it is given now, such as on a full disk; nothing of it was written."""


class Store(Protocol):
    incomplete: str  # what could not be read of a last transaction that may never have been finished; empty: nothing

    def load(self) -> Stored:
        """All that was written and not erased, exactly; an InputError that names what is damaged when it cannot be."""

    def write(self, changes: Sequence[Change]) -> None:
        """Apply changes in order, all or none; when it returns they survive a crash. A StoreError when they cannot."""

    def close(self) -> None: ...
