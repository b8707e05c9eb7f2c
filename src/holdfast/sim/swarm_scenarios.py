"""Whole scenarios drawn from seeds, of every kind of network that there is.

A seed draws topology, routing, loss, delays, workload, subscription churn and faults; the same is told with clients
that recover, with brokers that gossip, with brokers that store events or go round what is down, and with brokers that
are replaced. Everything that is drawn to go wrong has gone wrong before `TROUBLE_US`. `sim/swarm_troubles.py` adds more
to go wrong, `sim/swarm.py` runs and judges.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import get_args

from holdfast.model.replication_messages import CopyProtocol
from holdfast.network.schema import BrokerSpec, Burst, ClientSpec, Fault, LinkSpec, Network, SubscriptionSpec
from holdfast.network.workload.listed import Scheduled
from holdfast.network.workload.publication import PublishingWindow
from holdfast.network.workload.workloads import Silent
from holdfast.protocol.gossip.settings import GossipSettings, StyleName, Transfer
from holdfast.protocol.hops.settings import HandoverSettings, Hops, HopSettings, WatchSettings
from holdfast.protocol.order.settings import LatchSettings
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.replication.settings import ReplicationSettings
from holdfast.protocol.settings import Guarantees, ProtocolSettings, Routing

SECOND = 1_000_000
SETTINGS = ProtocolSettings(heartbeat_us=SECOND // 2, lease_us=2 * SECOND)
TROUBLE_US = 6 * SECOND
SETTLED_US = TROUBLE_US + 3 * SETTINGS.lease_us  # two leases and some heartbeats after everything was mended
END_US = SETTLED_US + 3 * SECOND


def scenario(seed: int) -> Network:
    dice = Random(f"{seed}/swarm")
    routings: list[Routing] = ["subscriptions", "advertisements", "destinations"]
    routing = dice.choice(routings)
    brokers = [f"b{n}" for n in range(dice.randint(1, 9))]
    links = _tree(brokers, dice)
    if routing == "destinations":
        links += _chords(brokers, links, dice)
    clients = [_client(n, brokers, dice) for n in range(dice.randint(2, 8))]
    faults = sorted(_faults(brokers, links, clients, routing, dice), key=lambda fault: fault.at_us)
    return Network(
        name=f"{routing}, {len(brokers)} brokers, {len(clients)} clients, {len(faults)} faults",
        seed=seed,
        duration_us=END_US,
        routing=routing,
        brokers=tuple(BrokerSpec(name, service_us=dice.choice([0, 0, 100])) for name in brokers),
        links=tuple(links),
        clients=tuple(clients),
        workload=Silent(),
        window=PublishingWindow(0, END_US),
        protocol=SETTINGS,
        faults=tuple(faults),
    )


def reliable_scenario(seed: int) -> Network:
    """The same, with clients that recover what they lost and may keep events in order."""
    dice = Random(f"{seed}/swarm/reliability")
    network = scenario(seed)
    order: LatchSettings | None = dice.choice([None, LatchSettings("fifo"), LatchSettings("strict", "drop")])
    recovery = RecoverySettings(
        digest_us=dice.choice([50_000, 200_000]),
        told=dice.choice([1, 2]),
        record=dice.choice([0, 4]),
        kept_max=dice.choice([20, 20_000]),
        missing_max=dice.choice([50, 20_000]),
        search_us=dice.choice([2 * SECOND, 60 * SECOND]),
        sources_max=dice.choice([2, 2_000]),
        scope_max=dice.choice([1, 12]),
    )
    guarantees = Guarantees(recovery, order)
    name = f"{network.name}, recovery, order {'none' if order is None else order.mode}"
    return replace(network, name=name, reliability=replace(network.reliability, guarantees=guarantees))


def gossiping_scenario(seed: int) -> Network:
    """The same, with brokers that recover losses, and perhaps links and clients that do."""
    dice = Random(f"{seed}/swarm/gossip")
    network = reliable_scenario(seed) if dice.random() < 0.3 else scenario(seed)
    gossip = GossipSettings(
        style=dice.choice(get_args(StyleName)),
        interval_us=dice.choice([10_000, 100_000]),
        buffer=dice.choice([5, 1_500]),
        forward_ratio=dice.choice([0.5, 1.0]),
        lost_us=dice.choice([SECOND, 10 * SECOND]),
        adaptive=dice.random() < 0.5,
        transfer=dice.choice(get_args(Transfer)),
        transfer_loss_ratio=dice.choice([0.0, 0.3]),
        lost_max=dice.choice([10, 20_000]),
        streams_max=dice.choice([5, 200_000]),
        origins_max=dice.choice([2, 4_096]),
        digest_max=dice.choice([3, 1_000]),
    )
    hops = HopSettings(dice.choice(["basic", "nack"]))
    name = f"{network.name}, {gossip.style}, hops {hops.hops}"
    return replace(network, name=name, reliability=replace(network.reliability, hops=hops, gossip=gossip))


def hopping_scenario(seed: int) -> Network:
    """The same, with brokers that store events, go round what is down, or both, or repair their links."""
    dice = Random(f"{seed}/swarm/hops")
    network = reliable_scenario(seed) if dice.random() < 0.3 else scenario(seed)
    kinds: list[Hops] = ["retransmission", "retransmission", "nack"]
    if network.routing == "destinations":  # the other routings know one way only
        kinds = ["retransmission", "multipath", "hybrid"]
    hops = HopSettings(
        dice.choice(kinds),
        handover=HandoverSettings(
            window=dice.choice([32, 256]),  # fewer would not carry all that is published over a link of 40 ms
            stored_max=dice.choice([50, 200_000]),
            published_max=dice.choice([5, 20_000]),
        ),
        watch=WatchSettings(beat_us=dice.choice([50_000, 200_000]), phi=dice.choice([2.0, 8.0])),
    )
    # A link that is replaced looks to brokers that store as if it had failed, and files that want both are refused. A
    # client that moves while its broker is down cannot say so: what comes for it then fills a small store for an hour.
    left_out = {"link-replace"} if hops.durable else set[str]()
    left_out |= {"client-attach"} if hops.handover.stored_max < 1_000 else set()
    faults = tuple(fault for fault in network.faults if fault.kind not in left_out)
    name = f"{network.name}, hops {hops.hops}"
    return replace(network, name=name, faults=faults, reliability=replace(network.reliability, hops=hops))


def replicating_scenario(seed: int) -> Network:
    """The same on a tree, with brokers that are replaced: early and adjacent ones, that die or hang, and return."""
    dice = Random(f"{seed}/swarm/replication")
    network = scenario(seed)
    near: dict[str, list[str]] = {broker.id: [] for broker in network.brokers}
    for link in network.links[: len(near) - 1]:  # the tree, without chords
        near[link.a].append(link.b)
        near[link.b].append(link.a)
    victims = [dice.choice(list(near))]
    while len(victims) < dice.choice([1, 2, 3]) and (
        beside := [each for each in near[victims[-1]] if each not in victims]
    ):
        victims.append(dice.choice(beside))
    faults = [fault for fault in network.faults if fault.kind in ("subscribe", "unsubscribe")]
    at_us = dice.choice([0, dice.randrange(SECOND), dice.randrange(SECOND, TROUBLE_US // 2)])
    for broker in victims:
        at_us += dice.choice([0, 0, dice.randrange(SECOND)])
        back_us = at_us + dice.choice([SECOND // 10, dice.randrange(SECOND, TROUBLE_US)])
        if dice.random() < 0.5:
            faults += [Fault(at_us, "crash", broker=broker), Fault(back_us, "restart", broker=broker)]
        else:
            faults += [Fault(at_us, "hang", broker=broker), Fault(back_us, "resume", broker=broker)]
    plan = ReplicationSettings(
        copying=dice.choice(get_args(CopyProtocol)),
        takeover_us=SECOND // 2,
        retry_us=SECOND // 2,
        provision_us=dice.choice([SECOND // 10, SECOND // 2]),
    )
    return replace(
        network,
        name=f"{network.name}, replication {plan.copying}, {len(victims)} adjacent",
        routing="advertisements" if dice.random() < 0.5 else "subscriptions",
        # P6 judges order and completeness where links break neither; a replica's links are like its broker's.
        links=tuple(LinkSpec(link.a, link.b, link.delay_us) for link in network.links[: len(near) - 1]),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_us)),
        reliability=replace(network.reliability, replication=plan),
    )


def _tree(brokers: list[str], dice: Random) -> list[LinkSpec]:
    return [_link(dice.choice(brokers[:at]), brokers[at], dice) for at in range(1, len(brokers))]


def _chords(brokers: list[str], links: list[LinkSpec], dice: Random) -> list[LinkSpec]:
    there = {frozenset((link.a, link.b)) for link in links}
    chords = []
    for _ in range(dice.randrange(3)):
        a, b = dice.choice(brokers), dice.choice(brokers)
        if a != b and frozenset((a, b)) not in there:
            there.add(frozenset((a, b)))
            chords.append(_link(a, b, dice))
    return chords


def _link(a: str, b: str, dice: Random) -> LinkSpec:
    burst = Burst(0.05, 0.3, 0.9) if dice.random() < 0.2 else None
    delay_us = dice.choice([0, 500, 5_000, 40_000])
    return LinkSpec(
        a,
        b,
        delay_us=delay_us,
        jitter_us=dice.choice([0, delay_us // 2]),
        loss_ratio=dice.choice([0.0, 0.05, 0.3]),
        burst=burst,
        duplicate_ratio=dice.choice([0.0, 0.0, 0.1]),
        reorder_ratio=dice.choice([0.0, 0.0, 0.2]),
    )


def _client(number: int, brokers: list[str], dice: Random) -> ClientSpec:
    wanted = [
        SubscriptionSpec(
            f"s{at}",
            _condition(dice),
            from_us=dice.choice([0, 0, dice.randrange(TROUBLE_US)]),
            until_us=dice.choice([None, None, TROUBLE_US + dice.randrange(END_US - TROUBLE_US)]),
        )
        for at in range(dice.randrange(4))
    ]
    every_us = dice.choice([90_000, 250_000])
    schedule = [
        Scheduled(
            dice.randrange(every_us), {"a": dice.randrange(6), "b": dice.randrange(6), "s": "abc"[kind]}, every_us
        )
        for kind in range(dice.randrange(4))
    ]
    return ClientSpec(
        f"c{number}",
        dice.choice(brokers),
        tuple(wanted),
        ("TRUE",) if schedule else (),
        bool(schedule),
        tuple(schedule),
    )


def _condition(dice: Random) -> str:
    number = dice.randrange(6)
    return dice.choice(
        [
            f"a = {number}",
            f"a < {number}",
            f"a >= {number} AND b < {dice.randrange(6)}",
            f"s = '{dice.choice('abc')}' AND a <= {number}",
            f"s LIKE '{dice.choice('abc')}%' OR b = {number}",
            "TRUE",
        ]
    )


def _faults(
    brokers: list[str], links: list[LinkSpec], clients: list[ClientSpec], routing: str, dice: Random
) -> Iterator[Fault]:
    """Crashes, link failures, replacements, moves and churn, all over before the trouble ends."""

    def moment() -> int:
        return dice.randrange(SECOND, TROUBLE_US - SECOND)

    for _ in range(dice.randrange(4)):
        broker, at_us = dice.choice(brokers), moment()
        yield Fault(at_us, "crash", broker=broker)
        yield Fault(at_us + dice.randrange(1, SECOND), "restart", broker=broker)
    for client in clients:
        if dice.random() < 0.3:
            yield Fault(moment(), "client-attach", client=client.id, broker=dice.choice(brokers))
        if dice.random() < 0.3:
            id_, at_us = "late", moment()
            yield Fault(at_us, "subscribe", client=client.id, subscription=id_, condition=_condition(dice))
            if dice.random() < 0.5:
                yield Fault(at_us + dice.randrange(1, END_US), "unsubscribe", client=client.id, subscription=id_)
    for link in links:
        if dice.random() < 0.3:
            at_us = moment()
            if routing == "destinations" or dice.random() < 0.5:
                yield Fault(at_us, "link-down", link=(link.a, link.b))
                yield Fault(at_us + dice.randrange(1, SECOND), "link-up", link=(link.a, link.b))
            else:
                yield Fault(at_us, "link-replace", link=(link.a, link.b), after_us=100_000)
                return  # replacements move links about, so that later ones could name a link that has gone
