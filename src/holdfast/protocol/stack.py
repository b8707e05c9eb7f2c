"""The one place where machines are put together: both drivers build the same stack from one description.

A broker at best effort is a bare `CoreBroker`, a client a bare `CoreClient`. Everything more is a layer around it.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from random import Random
from typing import Any

from holdfast.model.errors import MisuseError
from holdfast.model.limits import BATCH_EVENTS_MAX
from holdfast.model.settings import TIME_US_MAX
from holdfast.protocol.broker import CoreBroker
from holdfast.protocol.client import CoreClient
from holdfast.protocol.conditions import ConditionBook, EventIndex
from holdfast.protocol.destinations import DestinationRouter
from holdfast.protocol.duplicates import Seen
from holdfast.protocol.gossip.classes import Classes, tag_of
from holdfast.protocol.gossip.gossip import Gossip
from holdfast.protocol.gossip.layer import GossipLayer
from holdfast.protocol.gossip.settings import GossipSettings
from holdfast.protocol.groups.layer import GroupLayer
from holdfast.protocol.groups.member import GroupMember
from holdfast.protocol.guard import GuardLayer
from holdfast.protocol.hops.durable import DurableLayer
from holdfast.protocol.hops.durable_client import BATCH_STORED_MAX, DurableClient
from holdfast.protocol.hops.hybrid import HybridLayer
from holdfast.protocol.hops.multipath import MultipathLayer
from holdfast.protocol.hops.nack import NackLayer
from holdfast.protocol.hops.nack_client import NackClient
from holdfast.protocol.hops.settings import BASIC, HopSettings
from holdfast.protocol.intake import ALL_AT_ONCE
from holdfast.protocol.interests import InterestObserver
from holdfast.protocol.node import BrokerMachine, ClientMachine
from holdfast.protocol.parts import BrokerParts, Sign, SignerKeys
from holdfast.protocol.records.sharing import shared_records
from holdfast.protocol.recovery.blinding import Blinding
from holdfast.protocol.recovery.end_to_end import EndToEndRecovery
from holdfast.protocol.recovery.recovery import Recovery
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.recovery.srm.recovery import SrmRecovery
from holdfast.protocol.recovery.srm.settings import SrmSettings
from holdfast.protocol.reliable_client import Ordered, Recovering
from holdfast.protocol.replication.layer import ReplicationLayer
from holdfast.protocol.replication.settings import ReplicationSettings, Role
from holdfast.protocol.router import Router
from holdfast.protocol.settings import BEST_EFFORT, Guarantees, ProtocolSettings, Reliability
from holdfast.protocol.signing import EventSigner, EventVerifier
from holdfast.protocol.store_changes import Stored
from holdfast.protocol.tree import SLICE, TreeRouter

RECORD = 10  # publications that each one lists where order is kept: the record of papers 000 and 002


def in_one_process() -> AbstractContextManager[None]:
    """All nodes are in this process meanwhile: what one of them writes, the others need not decode."""
    return shared_records()


def are_told_apart(conditions: Collection[str]) -> bool:
    """Whether brokers that gossip give each of these, in canonical text, a tag of its own."""
    return len({tag_of(each) for each in conditions}) == len(conditions)


def new_broker(
    parts: BrokerParts,
    reliability: Reliability,
    stored: Stored | None = None,
    role: Role | None = None,
) -> BrokerMachine:
    """With what it has stored in an earlier life, if it stores anything; with a role, it is a replica."""
    broker = _trusting(parts, reliability, stored, role)
    if reliability.hops.hops != "nack":  # else it is below the links' numbers
        broker = _with_groups(broker, parts, reliability.hops, stored)
    return broker if parts.rights is None else GuardLayer(broker, parts.rights, parts.book)


def _trusting(parts: BrokerParts, reliability: Reliability, stored: Stored | None, role: Role | None) -> BrokerMachine:
    """The same, whose clients may do everything."""
    hops = reliability.hops
    if hops.durable:
        return _storing(parts, hops, stored or Stored())
    states, avoid_down = hops.hops == "basic", hops.hops == "multipath"
    tells_outages = hops.hops in ("basic", "nack")
    broker: BrokerMachine
    if reliability.replication is not None:
        return _on_its_links(_replicating(parts, reliability.replication, hops, role), parts, hops)
    if reliability.gossip is not None:
        broker, router = _gossiping(parts, reliability.gossip, states, avoid_down)
    else:
        router = new_router(parts, states=states, avoid_down=avoid_down)
        broker = CoreBroker(parts, router, tells_outages)
    if avoid_down:
        return MultipathLayer(broker, router, hops.watch, parts.epoch)
    return _on_its_links(broker, parts, hops, tells_outages=reliability.gossip is None)


def _with_groups(
    broker: BrokerMachine, parts: BrokerParts, hops: HopSettings, stored: Stored | None = None
) -> BrokerMachine:
    """A broker whose clients may share subscriptions, where that is asked for."""
    if not parts.groups:
        return broker

    def home(name: str) -> ClientMachine:
        dice = Random(f"{parts.epoch}/{name}")
        made = name, parts.settings, parts.book, parts.new_index, parts.epoch, dice
        return new_client(*made, hops=hops if hops.durable else BASIC, batches=True, confirms=True)

    kept = (stored or Stored()) if hops.durable else None
    return GroupLayer(broker, parts.settings, parts.book, home, kept, parts.epoch)


def new_router(
    parts: BrokerParts,
    watch: InterestObserver | None = None,
    states: bool = False,
    slice_max: int = SLICE,
    avoid_down: bool = False,
    age_us: int = 0,
) -> Router:
    if parts.routing == "destinations":
        own = parts.name, parts.epoch, parts.settings
        return DestinationRouter(*own, parts.book, parts.new_index, watch, avoid_down, age_us)
    advertised, hops_max = parts.routing == "advertisements", parts.settings.hops_max
    return TreeRouter(parts.book, parts.new_index, advertised, hops_max, watch, states, slice_max)


def _on_its_links(
    broker: BrokerMachine, parts: BrokerParts, hops: HopSettings, tells_outages: bool = False
) -> BrokerMachine:
    """With links that repair their own losses, where that is asked for: this goes with any broker."""
    if hops.hops != "nack":
        return broker
    return NackLayer(_with_groups(broker, parts, hops), hops.nack, tells_outages)


def _storing(parts: BrokerParts, hops: HopSettings, stored: Stored) -> BrokerMachine:
    now_us = parts.epoch
    epoch = now_us if stored.epoch is None else stored.epoch
    patient = replace(parts.settings, lease_us=TIME_US_MAX)  # what a silent neighbour wants is kept for it
    parts = replace(parts, settings=patient, epoch=epoch)
    # What is told later might be told before it is stored.
    router = new_router(parts, slice_max=ALL_AT_ONCE, age_us=max(0, now_us - epoch))
    broker = DurableLayer(CoreBroker(parts, router, slice_work=ALL_AT_ONCE), hops.handover, stored, now_us)
    if hops.hops != "hybrid":
        return broker
    known = [name for name, each in stored.neighbours.items() if each.kind == "broker"]
    return HybridLayer(broker, router, hops.watch, known, now_us)


def _gossiping(
    parts: BrokerParts, settings: GossipSettings, states: bool, avoid_down: bool
) -> tuple[BrokerMachine, Router]:
    name, epoch, dice = parts.name, parts.epoch, Random(f"{parts.rng.getrandbits(64)}/gossip")
    classes = Classes(name, epoch, settings.fading_us, parts.book, parts.new_index)
    router = new_router(parts, classes, avoid_down=avoid_down)
    seen = Seen(parts.settings.dedup_window, parts.settings.dedup_sources)
    gossip = Gossip(name, epoch, settings, classes, router, seen, parts.settings.hops_max, dice)
    return GossipLayer(CoreBroker(parts, router, states, gossip.on_local), gossip), router


def _replicating(
    parts: BrokerParts, settings: ReplicationSettings, hops: HopSettings, role: Role | None
) -> BrokerMachine:
    advertised, hops_max = parts.routing == "advertisements", parts.settings.hops_max
    tree = TreeRouter(parts.book, parts.new_index, advertised, hops_max, slice_max=ALL_AT_ONCE, chunk=settings.chunk)
    broker = CoreBroker(parts, tree, hops.hops == "basic", slice_work=ALL_AT_ONCE)
    return ReplicationLayer(broker, tree, parts, settings, role, hops.watch)


def new_client(
    name: str,
    settings: ProtocolSettings,
    book: ConditionBook,
    new_index: Callable[[], EventIndex[str]],
    epoch: int,
    rng: Random,
    first_seq: int = 1,
    guarantees: Guarantees = BEST_EFFORT,
    hops: HopSettings = BASIC,
    batches: bool = False,  # nobody counts publications one by one, so that they may leave in batches
    confirms: bool = False,  # the application says what it is done with; only then are stored events acknowledged
    groups: bool = False,  # it may share subscriptions
    sign: Sign | None = None,  # what it publishes
    signers: SignerKeys | None = None,  # what it gets has to be signed by one of them
    keeps_proofs: bool = False,  # what it gets stays signed
    digest_keys: Sequence[bytes] = (),  # that blind what it tells of its events
) -> ClientMachine:
    """`DurableClient(GroupMember(Ordered(Recovering(CoreClient))))`, of which a network has those that it asks for.

    `NackClient` stands in the place of `DurableClient`.
    """
    recovers, batch_max = guarantees != BEST_EFFORT, BATCH_EVENTS_MAX if batches else 0
    if hops.durable:
        batch_max = BATCH_STORED_MAX if batches and not recovers else 0  # an event with a record is stored by itself
    own = name, settings, book, new_index, epoch, rng, first_seq
    signer = None if sign is None else EventSigner(name, sign)
    verifier = None if signers is None else EventVerifier(signers)
    if (signer or verifier) and isinstance(guarantees.recovery, SrmSettings):
        raise MisuseError('signatures are not for scheme = "srm", where anybody repairs the events of anybody')
    if digest_keys and isinstance(guarantees.recovery, SrmSettings):
        raise MisuseError('a digest key is not for scheme = "srm", which has no digests')
    signatures: dict[str, Any] = {"signer": signer, "verifier": verifier, "keeps_proofs": keeps_proofs}
    client = CoreClient(*own, batches=batch_max, recovers=recovers, **signatures)
    node: ClientMachine = client
    if recovers:
        dice = Random(f"{rng.getrandbits(64)}/recovery")
        recovery = _new_recovery(client, guarantees, epoch, dice, Blinding(digest_keys) if digest_keys else None)
        node = recovering = Recovering(client, recovery, book, epoch)
        if guarantees.order is not None:
            requests = isinstance(guarantees.recovery, RecoverySettings) and guarantees.recovery.asks
            node = Ordered(recovering, recovery.gaps, guarantees.order, requests)
    if groups:
        node = GroupMember(node, client, book, settings, waits=hops.durable)
    if hops.hops == "nack":
        return NackClient(node, hops.nack)
    return DurableClient(node, hops.handover, confirms) if hops.durable else node


def _new_recovery(
    client: CoreClient, guarantees: Guarantees, epoch: int, rng: Random, blinding: Blinding | None
) -> Recovery:
    settings = guarantees.recovery or RecoverySettings(asks=False)
    if guarantees.order is not None and not settings.record:
        settings = replace(settings, record=RECORD)
    if isinstance(settings, SrmSettings):
        return SrmRecovery(client.name, epoch, settings, client.seen, client.first_seq, rng, client)
    wanted = settings.record if guarantees.order else 0
    return EndToEndRecovery(client.name, epoch, settings, client.seen, client.first_seq, wanted, client, blinding)
