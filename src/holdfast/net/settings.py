"""The settings of a live broker and of a client."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from holdfast.model.settings import Setting, Settings, declared, setting
from holdfast.model.tls_settings import TlsSettings
from holdfast.mqtt.settings import MqttSettings
from holdfast.net.address import Address
from holdfast.net.directory import NewDirectory
from holdfast.net.history_settings import HistorySettings
from holdfast.net.link import Impairment
from holdfast.net.outbox import BYTES_MAX
from holdfast.net.signing import Signing
from holdfast.net.tls import TlsFiles
from holdfast.net.witness import NewWitness
from holdfast.protocol.gossip.settings import GossipSettings
from holdfast.protocol.hops.settings import BASIC, HopSettings
from holdfast.protocol.replication.settings import ReplicationSettings, Role
from holdfast.protocol.settings import ClientReliability, ProtocolSettings, Routing
from holdfast.trust.budget import BudgetSettings
from holdfast.trust.settings import TrustSettings


@dataclass(frozen=True)
class NodeSettings(Settings):
    """What a live broker is to be."""

    name: Annotated[str, Setting("the broker's name, unique in the network", unchecked=True)]
    listen: Annotated[tuple[Address, ...], Setting("where it listens; port 0 takes a free one")]
    peers: Mapping[str, Address] = setting(dict, "brokers to dial", "a broker alone is a network")
    routing: Routing = setting(
        "subscriptions",
        "how events find their way, the same for all brokers of a network: the first two need a tree, destinations "
        "takes any graph",
        "publishers need not say what they will publish",
    )
    protocol: ProtocolSettings = setting(
        ProtocolSettings(), "heartbeats, leases and limits, the same for all", "as declared there"
    )
    hops: HopSettings = setting(
        BASIC, "what it does about losses and failures, the same for all", "most links are TCP connections"
    )
    store: Path | None = setting(
        None, "the file where it stores events, with hops retransmission or hybrid", "other brokers store nothing"
    )
    replication: ReplicationSettings | None = setting(
        None, "how it replaces or relieves its neighbours; None: not at all", "replicas cost machines"
    )
    role: Role | None = setting(None, "which broker it is a replica of", "most brokers are none")
    tls: TlsFiles | None = setting(None, "for addresses that begin with tls://", "other addresses need none")
    trust: TrustSettings = setting(
        TrustSettings(), "who has to prove what, and who may do what", "on one machine everybody may be trusted"
    )
    budgets: BudgetSettings = setting(
        BudgetSettings(), "what a connection and an identity may cost it", "as declared there"
    )
    queue_bytes: int = setting(
        BYTES_MAX, "that may wait for one neighbour", "about 50,000 small events: half a second at full speed"
    )
    push_back: bool = setting(
        False,
        "let slow neighbours hold up the fast instead of dropping events",
        "one slow subscriber would slow down all",
    )
    blocked_s_max: float = setting(
        30.0,
        "how long a neighbour that takes nothing may hold up others; then it loses its oldest events",
        "a garbage collection or a full disk cache is over by then",
    )
    impairments: Mapping[str, Impairment] = setting(dict, "losses and delays to inject, by neighbour", "for tests only")
    new_witness: NewWitness | None = setting(
        None, "who writes down what each client of MQTT does", "for runs of a network file only"
    )
    lossy_control: bool = setting(
        True, "whether an impairment loses control messages too", "real links make no difference"
    )
    mqtt: MqttSettings = setting(MqttSettings(), "how it serves clients of MQTT", "as declared there")
    history: HistorySettings | None = setting(
        None, "what it keeps for those who subscribe later; None: nothing", "a disk for it is somebody's decision"
    )
    gossip: GossipSettings | None = setting(
        None, "how brokers recover from each other, the same for all", "it needs every condition at every broker"
    )
    directory: NewDirectory | None = setting(
        None, "where replication has a directory outside", "brokers tell each other with their heartbeats"
    )


@dataclass(frozen=True)
class ClientSettings(ClientReliability, TlsSettings):
    """What `connect` takes beside the addresses of brokers."""

    name: str | None = setting(
        None,
        "the client's name; without one it gets one",
        "a client that nobody looks for needs none",
        unchecked=True,
    )
    token: str | None = setting(
        None,
        "file with the token that says who we are; read again at each connection",
        "not every broker asks for one",
        expects="a path in quotes",
    )
    sign: str | None = setting(
        None,
        "file with the private key (PEM, Ed25519) that signs what this client publishes; needs a name",
        "signing takes CPU time, and is of use where subscribers verify",
        expects="a path in quotes",
    )
    verify: str | None = setting(
        None,
        "file with the public keys of signers (JSON); events without a signature of theirs are refused",
        "it takes CPU time, and all publishers have to sign",
        expects="a path in quotes",
    )
    digest_key: str | None = setting(
        None,
        "file with the key that all clients of these events share; without it nobody reads what recovery tells of them",
        "where everybody may see the events, there is nothing to hide",
        expects="a path in quotes",
    )
    settings: ProtocolSettings | None = setting(
        None, "heartbeats, leases and limits, as in the brokers", "as declared there"
    )

    @property
    def signing(self) -> Signing:
        return Signing(self.sign, self.verify, self.digest_key)

    @property
    def tls(self) -> TlsFiles:
        return TlsFiles(self.certificate, self.key, self.ca)


def renamed(former: Mapping[str, Any], kind: type, function: str) -> dict[str, Any]:
    """Arguments under names of earlier versions, by the names of today; each use is a DeprecationWarning."""
    names = {each.setting.formerly: each.name for each in declared(kind).values() if each.setting.formerly}
    for name in former:
        if name not in names:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
        warnings.warn(f"{function}: {name}= is called {names[name]}= now", DeprecationWarning, stacklevel=3)
    return {names[name]: value for name, value in former.items()}
