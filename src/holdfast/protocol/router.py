"""The contract between a broker and its router: where events and tables go.

A broker keeps its neighbours and the tables that they sent. Its router (`tree` or `destinations`) decides what follows
from them: what to tell the neighbours, and who gets an event. What only one router needs is harmless for the other:
a tree has no link states, and routing by destinations keeps no tables with neighbours.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

from holdfast.model.event import Attributes
from holdfast.model.messages import Batch, LinkState, NodeKind, Publication, Publish, Stamp, Stamped, Table
from holdfast.protocol.effects import Effect, PassedOn
from holdfast.protocol.tables import SentTable


class Router(Protocol):
    # Links and tables ----------------------------------------------------------------------------

    def on_link_up(self, neighbour: str, kind: NodeKind, now_us: int) -> list[Effect]: ...
    def on_link_down(self, neighbour: str) -> None: ...

    def on_change(
        self, neighbour: str, table: Table, added: Collection[str], dropped: Collection[str], now_us: int
    ) -> list[Effect]:
        """A neighbour's table has changed."""
        ...

    def why_refused(self, added: list[str]) -> str:
        """Why there is no room for more subscriptions of a neighbour; empty when there is."""
        ...

    def sent_tables(self, neighbour: str) -> Mapping[Table, SentTable]:
        """The tables that we keep with a neighbour."""
        ...

    def told(self) -> Mapping[str, int] | None:
        """By neighbouring broker: the version of its table that has all that our neighbours want; None: it has none."""
        ...

    def on_confirmed(self, neighbour: str, version: int) -> None:
        """A neighbour has this version of the subscriptions that we sent it."""
        ...

    # Link states ---------------------------------------------------------------------------------

    @property
    def known(self) -> tuple[int, int]:
        """How many link states we know, and a digest of their versions."""
        ...

    def on_known(self, neighbour: str, known: tuple[int, int]) -> list[Effect]:
        """What a neighbouring broker's heartbeat tells of the link states that it knows."""
        ...

    def on_link_state(self, sender: str, state: LinkState) -> list[Effect]: ...

    def holds(self, state: LinkState) -> bool:
        """Whether this is what we know of that broker."""
        ...

    def suspect(self, neighbour: str, is_down: bool) -> list[Effect]:
        """A neighbour seems to be down, or is there again; what is known of it is kept."""
        ...

    # Time ----------------------------------------------------------------------------------------

    @property
    def more_us(self) -> int | None:
        """When it wants `on_timer`: a large change is told in slices."""
        ...

    def on_timer(self, now_us: int) -> list[Effect]: ...

    # Events --------------------------------------------------------------------------------------

    def forward(
        self, sender: str, publish: Publish | Stamped, stamp: Stamp | None = None, route: tuple[str, ...] = ()
    ) -> list[Effect]:
        """Where an event goes, to other brokers with this stamp and route."""
        ...

    def passes_on(self, sender: str, publish: Publish) -> PassedOn | None:
        """What `forward` would send; None where it may find anything out of the ordinary."""
        ...

    def on_dropped(self, publication: Publication) -> None:
        """An event has expired on its way, and goes no further."""
        ...

    def forward_batch(self, sender: str, batch: Batch) -> list[Effect]:
        """What `forward` would do with each, in as few messages as keep the order for everybody."""
        ...

    @property
    def version(self) -> int:
        """Goes up whenever `routes` may begin to answer differently."""
        ...

    def routes(self) -> tuple[Mapping[str, int], dict[str, int]]:
        """Condition -> the neighbours that want it, one bit each; and each neighbour's bit. Empty where an event's way
        does not follow from its conditions alone.
        """
        ...

    # What gossip asks ----------------------------------------------------------------------------

    @property
    def brokers(self) -> Mapping[str, object]:
        """The neighbours that are brokers, by name."""
        ...

    def towards(self, condition: str, homes: tuple[str, ...], sender: str) -> list[tuple[str, tuple[str, ...]]]:
        """The neighbours behind which somebody wants a condition, each with the homes to be reached through it."""
        ...

    def home(self, attributes: Attributes) -> tuple[str, ...]:
        """Our own clients that want an event."""
        ...
