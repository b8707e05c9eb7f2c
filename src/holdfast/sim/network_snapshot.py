"""A picture of a network in numbers, for compiled code: which nodes are up, which links there are, who wants what.

It is taken from the real machines and links, and taken again where something has changed. Brokers come first among
the nodes, so that tables have rows for brokers only. The number of an edge, once given, stays: what is in flight
knows it.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.matching.shared_index import SharedIndex
from holdfast.network.schema import LinkSpec
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.node import Routes
from holdfast.sim.flights import Edges, Nodes, Tables
from holdfast.sim.host import Host
from holdfast.sim.topology import Topology

_WORD_BITS = 64
_WORD = 2**_WORD_BITS - 1
_NOWHERE = LinkSpec("", "")  # the properties of an edge whose link has gone do not matter


class Picture:
    def __init__(
        self, topology: Topology, routes: Mapping[str, Routes], book: ConditionBook, index: SharedIndex
    ) -> None:
        self._topology = topology
        self._hosts = topology.hosts
        self._routes = routes  # of each broker
        self._book = book
        self._index = index
        self._nodes: dict[str, int] = {}
        self._numbers: dict[tuple[str, str], int] = {}  # a direction of a link -> its edge
        self._conditions: dict[str, int] = {}  # condition -> its number in the index
        self._changed: dict[str, None] = {}  # brokers whose tables differ from the picture
        self._drawn_at = -1  # the version of the topology that it shows
        self.in_order: list[Host] = []  # nodes by their numbers
        self.names: list[str] = []
        self.version = 0  # goes up when nodes are numbered anew
        self.ends: list[tuple[Host, Host]] = []  # edge -> sender and receiver
        self.nodes = Nodes(np.zeros(0, bool), np.zeros(0, bool))
        self.edges = Edges(*_edge_columns([]))
        self.tables = Tables(np.zeros((0, 0, 0), np.uint64), np.zeros((0, 0), np.int32))

    def edge(self, sender: str, receiver: str) -> int:
        number = self._numbers.get((sender, receiver))
        if number is None:
            number = self._numbers[sender, receiver] = len(self.ends)
            self.ends.append((self._hosts[sender], self._hosts[receiver]))
            self._drawn_at = -1
        return number

    def node(self, name: str) -> int:
        return self._nodes[name]

    def table_changed(self, broker: str) -> None:
        self._changed[broker] = None

    def refresh(self) -> None:
        """Take anew what has changed."""
        topology = self._topology
        while self._drawn_at != topology.version or self._changed:
            if self._drawn_at != topology.version:
                self._draw()
            changed, self._changed = self._changed, {}
            for name in changed:
                self._read_table(self._hosts[name])  # it may name an edge that is not in the picture yet
        if self._index.size > self.tables.wanted.shape[1]:  # events may meet conditions that no broker has heard of
            self._grow(self._index.size, 1)

    def _draw(self) -> None:
        order = sorted(self._hosts.values(), key=lambda host: host.kind)  # brokers first, each kind as it was
        nodes = {host.name: number for number, host in enumerate(order)}
        if nodes != self._nodes:
            self._nodes, self.in_order = nodes, order
            self.names = [host.name for host in order]
            self.version += 1
            self._changed = {host.name: None for host in order if host.kind == "broker"}
        for host in order:
            for name in host.channels:
                self.edge(host.name, name)
        self._drawn_at = self._topology.version
        self.nodes = Nodes(np.array([host.kind == "client" for host in order]), np.array([host.up for host in order]))
        self.edges = Edges(*_edge_columns([self._edge_row(*ends) for ends in self.ends]))

    def _edge_row(self, sender: Host, receiver: Host) -> tuple[Any, ...]:
        channel = sender.channels.get(receiver.name)
        spec = _NOWHERE if channel is None else channel.link.spec
        works = channel is not None and channel.link.up
        return (
            self._nodes[sender.name],
            self._nodes[receiver.name],
            sender.name in receiver.channels,
            self._knows(receiver.name, sender.name),
            0 if channel is None else channel.link.key,
            (spec.loss_ratio if works else 1.0, spec.delay_us, spec.jitter_us, spec.reorder_ratio),
        )

    def _read_table(self, host: Host) -> None:
        wanted, places = self._routes[host.name].routes()
        row, numbers = self._nodes[host.name], [self.number(condition) for condition in wanted]
        self._grow(self._index.size, max(places.values(), default=1).bit_length())
        bits, place_edges = self.tables
        for word in range(bits.shape[2]):
            column = [0] * bits.shape[1]
            for number, wanting in zip(numbers, wanted.values(), strict=True):
                column[number] |= wanting >> word * _WORD_BITS & _WORD
            bits[row, :, word] = column
        for name, bit in places.items():
            place_edges[row, bit.bit_length() - 1] = self.edge(host.name, name)
        for name in host.channels:
            edge = self._numbers.get((name, host.name))
            if edge is not None and edge < self.edges.known.size:
                self.edges.known[edge] = self._knows(host.name, name)

    def _knows(self, receiver: str, sender: str) -> bool:
        return receiver not in self._routes or self._routes[receiver].knows(sender)

    def number(self, condition: str) -> int:
        number = self._conditions.get(condition)
        if number is None:
            number = self._conditions[condition] = self._index.number(self._book.subscription(condition).filters)
        return number

    def _grow(self, conditions: int, places: int) -> None:
        bits, place_edges = self.tables
        rows, words = int(np.sum(~self.nodes.is_client)), -(-places // _WORD_BITS)
        if rows > bits.shape[0] or conditions > bits.shape[1] or words > bits.shape[2]:
            width = bits.shape[1] if conditions <= bits.shape[1] else max(conditions, 2 * bits.shape[1])
            words = max(words, bits.shape[2])
            self.tables = Tables(_grown(bits, (rows, width, words)), _grown(place_edges, (rows, words * _WORD_BITS)))


def _edge_columns(rows: list[tuple[Any, ...]]) -> list[NDArray[Any]]:
    kinds = [np.int32, np.int32, bool, bool, np.uint64, float]
    columns = list(zip(*rows, strict=True)) or [()] * len(kinds)
    return [np.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]


def _grown(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    larger = np.zeros(shape, array.dtype)
    larger[tuple(slice(size) for size in array.shape)] = array
    return larger
