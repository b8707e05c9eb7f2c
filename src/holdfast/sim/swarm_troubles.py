"""More to go wrong in a drawn scenario, as live networks taught it: a seed draws some of these troubles, or none.

Outages of several leases, longer than subscribers search and publishers keep; brokers that hang, that crash in their
first heartbeat, or together with their neighbours; clients that are absent for a while; publishers that publish in
steps of a digest's or heartbeat's interval, and fall silent; hundreds of events at one instant; and skewed clocks.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from types import MappingProxyType

from holdfast.network.schema import ClientSpec, Fault, FaultKind, Network
from holdfast.network.workload.listed import Scheduled
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.settings import ProtocolSettings
from holdfast.sim.swarm_scenarios import (
    SECOND,
    SETTLED_US,
    TROUBLE_US,
    gossiping_scenario,
    hopping_scenario,
    reliable_scenario,
    replicating_scenario,
    scenario,
)

_BRISK = ProtocolSettings(heartbeat_us=SECOND // 4, lease_us=SECOND)
_BACK_US = TROUBLE_US - SECOND // 10  # by then whoever was away has returned
_ENDS: dict[FaultKind, FaultKind] = {"crash": "restart", "hang": "resume"}
_LIKELY = 0.3  # that a trouble is drawn
_AHEAD_US = (0, 0, 1_000, 300_000, 10 * SECOND, 3_600 * SECOND)
_DRAWS: tuple[Callable[[int], Network], ...] = (
    scenario,
    reliable_scenario,
    gossiping_scenario,
    hopping_scenario,
    replicating_scenario,
)


@dataclass(frozen=True)
class Scenario:
    seed: int
    kind: str
    network: Network
    ahead_us: dict[str, int] = field(default_factory=dict)  # by how much clocks are ahead
    troubles: tuple[str, ...] = ()


def drawn(seed: int) -> Scenario:
    """What a seed stands for: one kind of network after the other, with troubles of its own."""
    network = _DRAWS[seed % len(_DRAWS)](seed)
    dice = Random(f"{seed}/swarm/troubles")
    troubles = [name for name in _TROUBLES if dice.random() < _LIKELY and _goes_with(name, network)]
    for name in troubles:
        network = _TROUBLES[name](network, dice)
    ahead_us = dict[str, int]()
    if dice.random() < _LIKELY:
        troubles.append("skewed clocks")
        nodes = [broker.id for broker in network.brokers] + [client.id for client in network.clients]
        ahead_us = {node: dice.choice(_AHEAD_US) for node in nodes}
    network = replace(network, name=", ".join([network.name, *troubles]))
    return Scenario(seed, kind_of(network), network, ahead_us, tuple(troubles))


def kind_of(network: Network) -> str:
    """The mechanism that the network was drawn for."""
    reliability = network.reliability
    if reliability.gossip is not None:
        return f"gossip {reliability.gossip.style}"
    if network.replication is not None:
        return f"replication {network.replication.copying}"
    if reliability.hops.hops != "basic":
        return reliability.hops.hops
    if reliability.guarantees.recovery is None:
        return "best effort"
    order = reliability.guarantees.order
    return "recovery" if order is None else f"recovery {order.mode}"


def _goes_with(trouble: str, network: Network) -> bool:
    """P6 is judged where the brokers that fail are those that are replaced, and every subscriber stays.

    A client that moves while its broker is down cannot say so: what comes for it then fills a small store for an hour.
    """
    if network.replication is not None:
        return trouble in ("phases", "burst")
    hops = network.reliability.hops
    return trouble != "absence" or not hops.durable or hops.handover.stored_max >= 1_000


# Faults ----------------------------------------------------------------------------------------------------------


def _with_faults(network: Network, faults: list[Fault]) -> Network:
    return replace(network, faults=tuple(sorted([*network.faults, *faults], key=lambda fault: fault.at_us)))


def _away(kind: FaultKind, broker: str, at_us: int, back_us: int) -> list[Fault]:
    return [Fault(at_us, kind, broker=broker), Fault(min(back_us, _BACK_US), _ENDS[kind], broker=broker)]


def _long_outage(network: Network, dice: Random) -> Network:
    """A broker or a link is down for leases, and for longer than some search, or keep events."""
    if dice.random() < 0.5:
        network = replace(network, protocol=_BRISK)
    guarantees = network.reliability.guarantees
    if isinstance(guarantees.recovery, RecoverySettings) and dice.random() < 0.5:
        brief = replace(guarantees.recovery, search_us=SECOND, kept_us=2 * SECOND)
        reliability = replace(network.reliability, guarantees=replace(guarantees, recovery=brief))
        network = replace(network, reliability=reliability)
    at_us = dice.randrange(2 * SECOND)
    back_us = at_us + dice.randrange(2 * network.protocol.lease_us, TROUBLE_US)
    touched = {frozenset(fault.link) for fault in network.faults if fault.link}
    is_replaced = any(fault.kind == "link-replace" for fault in network.faults)
    links = [link for link in network.links if frozenset((link.a, link.b)) not in touched and not is_replaced]
    if links and dice.random() < 0.5:
        link = dice.choice(links)
        ends = link.a, link.b
        down, up = Fault(at_us, "link-down", link=ends), Fault(min(back_us, _BACK_US), "link-up", link=ends)
        return _with_faults(network, [down, up])
    return _with_faults(network, _away("crash", dice.choice(network.brokers).id, at_us, back_us))


def _hang(network: Network, dice: Random) -> Network:
    faults = []
    for _ in range(dice.choice([1, 1, 2])):
        at_us = dice.randrange(TROUBLE_US - SECOND)
        back_us = at_us + dice.choice([SECOND // 10, SECOND, dice.randrange(SECOND, 5 * SECOND)])
        faults += _away("hang", dice.choice(network.brokers).id, at_us, back_us)
    return _with_faults(network, faults)


def _early_crash(network: Network, dice: Random) -> Network:
    at_us = dice.randrange(network.protocol.heartbeat_us)
    back_us = at_us + dice.choice([SECOND // 20, dice.randrange(1, 2 * SECOND)])
    return _with_faults(network, _away("crash", dice.choice(network.brokers).id, at_us, back_us))


def _adjacent_crashes(network: Network, dice: Random) -> Network:
    near = network.neighbours()
    victims = [dice.choice(network.brokers).id]
    for _ in range(dice.choice([1, 2])):
        victims += (
            [dice.choice(beside)] if (beside := [each for each in near[victims[-1]] if each not in victims]) else []
        )
    at_us = dice.randrange(TROUBLE_US - SECOND)
    faults = []
    for broker in victims:
        from_us = at_us + dice.choice([0, dice.randrange(SECOND // 2)])
        back_us = from_us + dice.choice([SECOND // 5, dice.randrange(1, 4 * SECOND)])
        faults += _away(dice.choice(list(_ENDS)), broker, from_us, back_us)
    return _with_faults(network, faults)


def _absence(network: Network, dice: Random) -> Network:
    """A client detaches, and attaches again there or somewhere else."""
    faults = []
    for client in network.clients:
        if dice.random() < 0.4:
            at_us = dice.randrange(TROUBLE_US - SECOND)
            back_us = min(at_us + dice.choice([1_000, SECOND // 2, dice.randrange(SECOND, 5 * SECOND)]), _BACK_US)
            broker = dice.choice([client.broker, dice.choice(network.brokers).id])
            faults += [
                Fault(at_us, "client-detach", client=client.id),
                Fault(back_us, "client-attach", client=client.id, broker=broker),
            ]
    return _with_faults(network, faults)


# Workload --------------------------------------------------------------------------------------------------------


def _phases(network: Network, dice: Random) -> Network:
    """Publishers publish in steps of an interval, give or take a millisecond, and fall silent until all is well."""
    recovery = network.reliability.guarantees.recovery
    periods_us = [network.protocol.heartbeat_us, SECOND]  # a slow publisher's digest waits for a second
    periods_us += [recovery.digest_us] if isinstance(recovery, RecoverySettings) else []

    def beside(each: Scheduled) -> Iterator[Scheduled]:
        period_us = dice.choice(periods_us)
        for number in range(dice.randrange(1, 12)):
            around_us = dice.choice([-1_000, -1, 0, 1, 1_000])
            yield replace(each, at_us=max(0, each.at_us + number * period_us + around_us), every_us=None)
        yield replace(each, at_us=SETTLED_US + each.at_us)

    def changed(client: ClientSpec) -> ClientSpec:
        if dice.random() < 0.5:
            return client
        return replace(client, schedule=tuple(new for each in client.schedule for new in beside(each)))

    return replace(network, clients=tuple(map(changed, network.clients)))


def _burst(network: Network, dice: Random) -> Network:
    """A publisher publishes hundreds of events at one instant."""
    publishers = [client.id for client in network.clients if client.schedule]
    if not publishers:
        return network
    bursting, at_us = dice.choice(publishers), dice.randrange(TROUBLE_US)
    events = [
        Scheduled(at_us, {"a": dice.randrange(6), "b": dice.randrange(6), "s": dice.choice("abc")})
        for _ in range(dice.randrange(100, 501))
    ]
    clients = [
        replace(client, schedule=(*client.schedule, *events)) if client.id == bursting else client
        for client in network.clients
    ]
    return replace(network, clients=tuple(clients))


_TROUBLES: MappingProxyType[str, Callable[[Network, Random], Network]] = MappingProxyType(
    {
        "long outage": _long_outage,
        "hang": _hang,
        "early crash": _early_crash,
        "adjacent crashes": _adjacent_crashes,
        "absence": _absence,
        "phases": _phases,
        "burst": _burst,
    }
)
