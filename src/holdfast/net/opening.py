"""Opens the store of a broker, and goes on with the clock by which it was written."""

from collections.abc import Callable

from holdfast.model.errors import InputError
from holdfast.net.clock import Clock
from holdfast.net.committer import Committer
from holdfast.net.journal import Note
from holdfast.net.settings import NodeSettings
from holdfast.protocol.store_changes import Change, Stored
from holdfast.store.sqlite import SqliteStore

Log = Callable[[Note], None]


def open_store(settings: NodeSettings, clock: Clock, log: Log) -> tuple[Committer[Change] | None, Stored | None, Clock]:
    """The store and what is in it, if the broker has one, and the clock to go by; an InputError when it is no good."""
    if not settings.hops.durable:
        if settings.store is not None:
            stores = '"retransmission" and "hybrid"'
            hops = f'hops = "{settings.hops.hops}" stores nothing, but {settings.name} has a store'
            raise InputError(f"{hops} ({settings.store}): only {stores} use one")
        return None, None, clock
    if settings.store is None:
        hops = f'hops = "{settings.hops.hops}" stores events'
        raise InputError(f"{hops}: {settings.name} needs a store (store=FILE or --store FILE)")
    store = SqliteStore(settings.store)
    if store.incomplete:
        log(Note("store_incomplete", "", f"{settings.store}: {store.incomplete}; it is left out"))
    committer: Committer[Change] = Committer(store, lambda line: log(Note("store", "", line)))
    stored = store.load()
    if stored.bodies:
        last_us = max(kept_us for kept_us, _ in stored.bodies.values())
        clock, set_us = clock.continued(stored.clock, last_us)
        if set_us:
            way = "ahead" if set_us > 0 else "back"
            text = f"the clock was set {way} by {abs(set_us) / 1e6:,.0f} s; stored events are no older for it"
            log(Note("clock_was_set", "", text))
    committer.persist((clock.reading(),))
    return committer, stored, clock
