"""What goes wrong in a run: the faults of the network file, and random failures of brokers and links.

A crash and a random link failure are silent: neighbours find out by themselves. A link that the file takes down,
brings up or replaces is a change of topology, and both of its ends are told.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from random import Random
from typing import Protocol

from holdfast.network.schema import Fault, LinkSpec, Network
from holdfast.protocol.effects import Incident


class Running(Protocol):
    """A network that runs, simulated or live: when something is to happen, and what can happen to it."""

    network: Network
    seed: int

    @property
    def now_us(self) -> int: ...
    def at(self, time_us: int, action: Callable[[], object]) -> None: ...
    def note(self, node: str, incident: Incident) -> None: ...
    def crash(self, name: str) -> None: ...
    def restart(self, name: str) -> None: ...
    def hang(self, name: str) -> None: ...
    def resume(self, name: str) -> None: ...
    def connect(self, spec: LinkSpec) -> None: ...
    def disconnect(self, a: str, b: str) -> None: ...
    def set_link(self, a: str, b: str, up: bool) -> None: ...
    def attach(self, client: str, broker: str) -> None: ...
    def detach(self, client: str) -> None: ...
    def subscribe(self, client: str, id_: str, condition: str) -> None: ...
    def unsubscribe(self, client: str, id_: str) -> None: ...


class Faults:
    def __init__(self, running: Running) -> None:
        self._running = running
        self._removed: dict[frozenset[str], LinkSpec] = {}  # links that are down, to be brought up as they were
        network, seed = running.network, running.seed
        self._links = {frozenset((link.a, link.b)): link for link in network.links}
        self._next(network.timeline(seed), None)
        for broker in network.brokers:
            if broker.mtbf_us and broker.mttr_us:
                dice = Random(f"{seed}/{broker.id}/failures")
                fail, mend = partial(running.crash, broker.id), partial(running.restart, broker.id)
                self._alternate(dice, broker.mtbf_us, broker.mttr_us, fail, mend)
        for link in network.links:
            if link.mtbf_us and link.mttr_us:
                dice = Random(f"{seed}/{link.a}-{link.b}/failures")
                fail, mend = (partial(running.set_link, link.a, link.b, up) for up in (False, True))
                self._alternate(dice, link.mtbf_us, link.mttr_us, fail, mend)

    # The file's faults ---------------------------------------------------------------------------

    def _next(self, timeline: Iterator[Fault], fault: Fault | None) -> None:
        """Let one fault happen and schedule the one after it."""
        if fault is not None:
            self._apply(fault)
        following = next(timeline, None)
        if following is not None:
            self._running.at(following.at_us, partial(self._next, timeline, following))

    def _apply(self, fault: Fault) -> None:
        running = self._running
        match fault:
            case Fault(kind="crash", broker=str(broker)):
                running.crash(broker)
            case Fault(kind="restart", broker=str(broker)):
                running.restart(broker)
            case Fault(kind="hang", broker=str(broker)):
                running.hang(broker)
            case Fault(kind="resume", broker=str(broker)):
                running.resume(broker)
            case Fault(kind="link-down", link=(a, b)):
                self._take_down(a, b)
            case Fault(kind="link-up", link=(a, b)):
                self._bring_up(self._removed[frozenset((a, b))])
            case Fault(kind="link-replace", link=(a, b), to=(c, d), after_us=after_us):
                self._take_down(a, b)
                spec = replace(self._links[frozenset((a, b))], a=c, b=d)
                self._links[frozenset((c, d))] = spec
                running.at(running.now_us + after_us, partial(self._bring_up, spec))
            case Fault(kind="client-detach", client=str(client)):
                running.detach(client)
            case Fault(kind="client-attach", client=str(client), broker=str(broker)):
                running.detach(client)
                running.at(running.now_us + 2, partial(running.attach, client, broker))
            case Fault(kind="subscribe", client=str(client), subscription=str(id_), condition=str(condition)):
                running.subscribe(client, id_, condition)
            case Fault(kind="unsubscribe", client=str(client), subscription=str(id_)):
                running.unsubscribe(client, id_)
            case _:
                raise AssertionError(f"the network file let through {fault}")

    def _take_down(self, a: str, b: str) -> None:
        ends = frozenset((a, b))
        self._removed[ends] = self._links[ends]
        self._running.disconnect(a, b)
        self._running.note(a, Incident("link_down", b))

    def _bring_up(self, spec: LinkSpec) -> None:
        self._removed.pop(frozenset((spec.a, spec.b)), None)
        self._running.connect(spec)
        self._running.note(spec.a, Incident("link_up", spec.b))

    # Random failures -----------------------------------------------------------------------------

    def _alternate(
        self, dice: Random, up_us: int, down_us: int, fail: Callable[[], object], mend: Callable[[], object]
    ) -> None:
        """Up for a while, down for a while, for ever: both exponential."""

        def change(going_down: bool) -> None:
            if going_down:
                fail()
            else:
                mend()
            mean_us = down_us if going_down else up_us
            later_us = max(1, round(dice.expovariate(1 / mean_us)))
            self._running.at(self._running.now_us + later_us, partial(change, not going_down))

        self._running.at(max(1, round(dice.expovariate(1 / up_us))), partial(change, True))
