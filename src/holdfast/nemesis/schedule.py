"""What is done to a network and when, drawn from a seed: the same file, mode, seed and length give the same schedule.

Faults come at random times, a few at once now and then, and each ends. The first seconds are free of them, so that all
subscriptions are known everywhere, and so are the last, so that a run ends with a network that could have healed. Times
follow from the network's own lease: a stopped broker is sometimes back before its neighbours forget it, and sometimes
long after.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec

from holdfast.model.errors import InputError
from holdfast.model.validation import did_you_mean
from holdfast.nemesis.modes import Mode
from holdfast.network.schema import ClientSpec, Network

_GAP_LEASES = 1.0  # mean time from one fault to the next; the last one is then not yet forgotten
_AT_ONCE = 0.2  # share of faults that come together with the one before: adjacent crashes, crashes while links are cut
_BURST_EVENTS = 500  # events published at once
_BUSY_US = 1_000_000  # what a busy machine adds to two heartbeats
_STEP_US = 3_600_000_000  # a clock that is set wrong is wrong by an hour


KEEPER = "keeper"  # where a bus carries the events: it stores them, and answers for publishers that are gone


class PlannedFault(msgspec.Struct, frozen=True):
    """One thing that is done, to whom, from when until when; times are from the start of the run."""

    at_us: int
    for_us: int
    kind: str
    target: str  # a broker, a client, or a link as a-b
    what: dict[str, Any] = {}  # how much of it

    @property
    def until_us(self) -> int:
        return self.at_us + self.for_us


@dataclass(frozen=True)
class Targets:
    """Who can be struck."""

    brokers: tuple[str, ...]
    links: tuple[str, ...]  # between brokers
    clients: tuple[str, ...]
    publishers: tuple[str, ...]
    subscribers: tuple[str, ...]
    conditions: tuple[str, ...]
    clocks: tuple[str, ...] = ()  # brokers whose clock can be set wrong: not a server of somebody else's
    keepers: tuple[str, ...] = ()  # of a bus

    @staticmethod
    def of(network: Network) -> "Targets":
        def names(wanted: Callable[[ClientSpec], object]) -> tuple[str, ...]:
            return tuple(each.id for each in network.clients if wanted(each))

        brokers = tuple(each.id for each in network.brokers)
        return Targets(
            brokers,
            tuple(link_name(each.a, each.b) for each in network.links),
            names(lambda each: True),
            names(lambda each: each.publishes),
            names(lambda each: each.subscriptions),
            tuple(dict.fromkeys(each.condition for client in network.clients for each in client.subscriptions)),
            brokers if network.carrier is None else (),
            () if network.carrier is None else (KEEPER,),
        )


def link_name(a: str, b: str) -> str:
    return f"{a}-{b}"


@dataclass(frozen=True)
class FaultType:
    """A kind of fault: whom it strikes, for how many leases, how often beside the others, and in which modes."""

    name: str
    strikes: Callable[[Targets], tuple[str, ...]]
    leases: tuple[float, float]
    weight: float = 1.0
    fits: Callable[[Mode], bool] = lambda mode: True
    what: Callable[[Random, Targets], dict[str, Any]] = lambda dice, targets: {}


def _everywhere(targets: Targets) -> tuple[str, ...]:
    return targets.links + targets.clients


_KINDS = (
    FaultType("kill-broker", lambda of: of.brokers, (0.1, 2.5), 2.0),
    FaultType("pause-broker", lambda of: of.brokers, (0.3, 2.5), 1.5),
    FaultType("kill-publisher", lambda of: of.publishers, (0.1, 1.0)),
    FaultType("kill-subscriber", lambda of: of.subscribers, (0.1, 1.5)),
    FaultType("kill-keeper", lambda of: of.keepers, (0.1, 1.5)),
    FaultType("pause-publisher", lambda of: of.publishers, (0.3, 2.5), 0.5),
    FaultType("pause-subscriber", lambda of: of.subscribers, (0.3, 2.5), 0.5),
    FaultType("cut", _everywhere, (0.05, 2.5), 2.0),
    FaultType("stall", _everywhere, (0.1, 2.5), 1.5),
    FaultType(
        "delay",
        _everywhere,
        (0.5, 2.0),
        what=lambda dice, of: {"delay_s": round(dice.uniform(0.02, 0.3), 3), "jitter_s": round(dice.random() / 5, 3)},
    ),
    FaultType(
        "throttle",
        _everywhere,
        (0.5, 2.0),
        0.5,
        lambda mode: not mode.udp,
        lambda dice, of: {"bytes_per_s": dice.choice((20_000, 100_000))},
    ),
    FaultType(
        "drop",
        _everywhere,
        (0.5, 2.0),
        3.0,
        lambda mode: mode.udp,
        lambda dice, of: {"drop": round(dice.uniform(0.02, 0.3), 3), "duplicate": dice.choice((0.0, 0.05))},
    ),
    FaultType("burst", lambda of: of.publishers, (0.0, 0.0), what=lambda dice, of: {"events": _BURST_EVENTS}),
    FaultType("slow-reader", lambda of: of.subscribers, (0.5, 2.0)),
    FaultType("absence", lambda of: of.subscribers, (0.3, 2.5)),
    FaultType("leave", lambda of: of.publishers, (0.3, 1.0), 0.5),
    FaultType(
        "churn", lambda of: of.subscribers, (0.5, 3.0), what=lambda dice, of: {"condition": dice.choice(of.conditions)}
    ),
    FaultType("full-disk", lambda of: of.brokers, (0.3, 1.5), 1.0, lambda mode: mode.stores),
    # A publisher's numbers continue from the time of day, so its clock goes forward only (docs/recovery.md, Limits).
    FaultType(
        "clock-forward", lambda of: of.clocks + of.clients, (0.1, 0.5), 0.5, what=lambda dice, of: {"by_us": _STEP_US}
    ),
    FaultType(
        "clock-back",
        lambda of: of.clocks + tuple(each for each in of.subscribers if each not in of.publishers),
        (0.1, 0.5),
        0.5,
        what=lambda dice, of: {"by_us": -_STEP_US},
    ),
)
KINDS: dict[str, FaultType] = {each.name: each for each in _KINDS}


def kinds_named(names: str | None) -> tuple[str, ...]:
    """The kinds of faults in a list such as `kill-broker,cut`; none: no choice is made."""
    wanted = tuple(each.strip() for each in (names or "").split(",") if each.strip())
    for each in wanted:
        if each not in KINDS:
            hint = did_you_mean(each, KINDS) or f"there are {', '.join(KINDS)}"
            raise InputError(f"--faults: there is no fault {each!r}; {hint}")
    return wanted


def draw(network: Network, mode: Mode, seed: int, duration_us: int, only: tuple[str, ...] = ()) -> list[PlannedFault]:
    """The faults of one run in the order of time; `only` leaves out all other kinds."""
    targets = Targets.of(network)
    dice = Random(f"{seed}/{mode.name}/nemesis")
    kinds = [each for each in _KINDS if each.fits(mode) and each.strikes(targets) and (not only or each.name in only)]
    lease_us = network.protocol.lease_us
    at_us, end_us = quiet_us(network), duration_us - quiet_us(network)
    busy_until_us: dict[str, int] = {}
    faults: list[PlannedFault] = []
    while kinds and at_us < end_us:
        kind = dice.choices(kinds, [each.weight for each in kinds])[0]
        target = dice.choice(kind.strikes(targets))
        for_us = int(dice.uniform(*kind.leases) * lease_us)
        fault = PlannedFault(at_us, min(for_us, end_us - at_us), kind.name, target, kind.what(dice, targets))
        if busy_until_us.get(target, 0) <= at_us:  # one thing at a time to each
            busy_until_us[target] = fault.until_us + network.protocol.heartbeat_us
            faults.append(fault)
        if dice.random() >= _AT_ONCE:
            at_us += int(dice.expovariate(1 / (_GAP_LEASES * lease_us)))
    return faults


def settle_us(network: Network) -> int:
    """How long all brokers take to learn of a subscription, and to mend their tables after a fault."""
    return 2 * network.protocol.heartbeat_us + _BUSY_US


def quiet_us(network: Network) -> int:
    """How long a network is left alone at both ends of a run."""
    return max(settle_us(network), network.protocol.lease_us + network.protocol.heartbeat_us)
