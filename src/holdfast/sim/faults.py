"""What goes wrong in a run: the faults of the network file, and random failures of brokers and links.

A crash and a random link failure are silent: neighbours find out by themselves. A link that the file takes down,
brings up or replaces is a change of topology, and both of its ends are told.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from holdfast.network.schema import Fault, LinkSpec
from holdfast.protocol.effects import Incident

if TYPE_CHECKING:
    from holdfast.sim.simulator import Simulation


class Faults:
    def __init__(self, simulation: "Simulation") -> None:
        self._simulation = simulation
        self._removed: dict[frozenset[str], LinkSpec] = {}  # links that are down, to be brought up as they were
        network, seed = simulation.network, simulation.seed
        self._links = {frozenset((link.a, link.b)): link for link in network.links}
        self._next(network.timeline(seed), None)
        for broker in network.brokers:
            if broker.mtbf_us and broker.mttr_us:
                dice = Random(f"{seed}/{broker.id}/failures")
                fail, mend = self._crash_of(broker.id), self._restart_of(broker.id)
                self._alternate(dice, broker.mtbf_us, broker.mttr_us, fail, mend)
        for link in network.links:
            if link.mtbf_us and link.mttr_us:
                dice = Random(f"{seed}/{link.a}-{link.b}/failures")
                ends = link.a, link.b
                self._alternate(dice, link.mtbf_us, link.mttr_us, self._cut(ends), self._join(ends))

    # The file's faults ---------------------------------------------------------------------------

    def _next(self, timeline: Iterator[Fault], fault: Fault | None) -> None:
        """Let one fault happen and schedule the one after it."""
        if fault is not None:
            self._apply(fault)
        following = next(timeline, None)
        if following is not None:
            self._simulation.at(following.at_us, self._next, timeline, following)

    def _apply(self, fault: Fault) -> None:
        simulation = self._simulation
        match fault:
            case Fault(kind="crash", broker=str(broker)):
                simulation.crash(broker)
            case Fault(kind="restart", broker=str(broker)):
                simulation.restart(broker)
            case Fault(kind="link-down", link=(a, b)):
                self._take_down(a, b)
            case Fault(kind="link-up", link=(a, b)):
                self._bring_up(self._removed[frozenset((a, b))])
            case Fault(kind="link-replace", link=(a, b), to=(c, d), after_us=after_us):
                self._take_down(a, b)
                spec = replace(self._links[frozenset((a, b))], a=c, b=d)
                self._links[frozenset((c, d))] = spec
                simulation.at(simulation.now_us + after_us, lambda spec, _: self._bring_up(spec), spec)
            case Fault(kind="client-detach", client=str(client)):
                simulation.detach(client)
            case Fault(kind="client-attach", client=str(client), broker=str(broker)):
                simulation.detach(client)
                simulation.at(simulation.now_us + 2, simulation.attach, client, broker)
            case Fault(kind="subscribe", client=str(client), subscription=str(id_), condition=str(condition)):
                simulation.subscribe(client, id_, condition)
            case Fault(kind="unsubscribe", client=str(client), subscription=str(id_)):
                simulation.unsubscribe(client, id_)
            case _:
                raise AssertionError(f"the network file let through {fault}")

    def _take_down(self, a: str, b: str) -> None:
        ends = frozenset((a, b))
        self._removed[ends] = self._links[ends]
        self._simulation.disconnect(a, b)
        self._simulation.note(a, Incident("link_down", b))

    def _bring_up(self, spec: LinkSpec) -> None:
        self._removed.pop(frozenset((spec.a, spec.b)), None)
        self._simulation.connect(spec)
        self._simulation.note(spec.a, Incident("link_up", spec.b))

    # Random failures -----------------------------------------------------------------------------

    def _alternate(
        self, dice: Random, up_us: int, down_us: int, fail: Callable[[], None], mend: Callable[[], None]
    ) -> None:
        """Up for a while, down for a while, for ever: both exponential."""

        def change(going_down: bool, _: object) -> None:
            if going_down:
                fail()
            else:
                mend()
            mean_us = down_us if going_down else up_us
            later_us = max(1, round(dice.expovariate(1 / mean_us)))
            self._simulation.at(self._simulation.now_us + later_us, change, not going_down)

        self._simulation.at(max(1, round(dice.expovariate(1 / up_us))), change, True)

    def _crash_of(self, broker: str) -> Callable[[], None]:
        return lambda: self._simulation.crash(broker)

    def _restart_of(self, broker: str) -> Callable[[], None]:
        return lambda: self._simulation.restart(broker)

    def _cut(self, ends: tuple[str, str]) -> Callable[[], None]:
        return lambda: self._simulation.set_link(*ends, up=False)

    def _join(self, ends: tuple[str, str]) -> Callable[[], None]:
        return lambda: self._simulation.set_link(*ends, up=True)
