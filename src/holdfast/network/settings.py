"""The settings of a network as a whole, beside those of its mechanisms."""

from dataclasses import dataclass
from typing import Literal

from holdfast.language.lanes import Template
from holdfast.model.settings import Settings, setting
from holdfast.model.tls_settings import TlsSettings
from holdfast.network.limits import DELAY_S_MAX, PORT_MAX, QUEUE_MAX, RATE_PER_S_MAX


@dataclass(frozen=True)
class PlanSettings(Settings):
    """What the planner predicts for; the drivers do not look at it."""

    target: float | None = setting(
        None,
        "share of its events that every subscriber is to get within their lifetime",
        "what a network is to reach is its owner's choice",
        above=0,
        at_most=1,
        key="target",
        otherwise="0.99, and nobody is held to it",
    )
    endpoints: Literal["counted", "assumed-up"] = setting(
        "counted",
        "whether the brokers of publisher and subscriber may fail, or are taken as up all the time",
        "they do fail",
        key="endpoints",
    )
    samples: int = setting(
        20_000,
        "worlds drawn where a network is too large for exact numbers",
        "within 0.0005 at a reliability of 0.999",
        unit="worlds",
        at_least=100,
        at_most=100_000_000,
        key="samples",
    )


@dataclass(frozen=True)
class TransportSettings(TlsSettings):
    """How live brokers and clients talk; the simulator looks at `reliable` only."""

    kind: Literal["udp", "tcp", "tls"] = setting(
        "udp", "how messages are carried", "udp loses what the network loses, as links in this file do", key="kind"
    )
    host: str = setting(
        "127.0.0.1", "where live brokers listen", "this machine only", expects="a host in quotes", key="host"
    )
    port: int = setting(
        0, "of the first broker, the next ones count up", "0: free ones", at_least=0, at_most=PORT_MAX, key="port"
    )
    metrics_port: int | None = setting(
        None,
        "the first broker serves /metrics and /health here on `host`, the next ones count up",
        "nobody may be looking",
        at_most=PORT_MAX,
        key="metrics_port",
        otherwise="none are served",
    )
    mqtt_port: int | None = setting(
        None,
        "the first broker serves clients of MQTT here on `host`, the next ones count up; they get the recovery and the "
        "order of this file",
        "all clients of the file are native ones",
        at_most=PORT_MAX,
        key="mqtt_port",
        otherwise="none are served",
    )

    @property
    def reliable(self) -> bool:
        return self.kind != "udp"


BUS = "bus"  # the name of the hub that stands for the servers of a bus, in files, faults and traces
Bus = Literal["nats", "mqtt", "redis", "rabbitmq", "zenoh", "stomp"]


@dataclass(frozen=True)
class CarrierSettings(Settings):
    """Somebody else's bus in the place of brokers: what it is, and what the ways to it do to messages."""

    bus: Bus = setting("nats", "which one", "it has a server in the package index", key="bus")
    address: str | None = setting(
        None,
        "of a server that runs already, such as nats://127.0.0.1:4222",
        "a run of its own disturbs nobody",
        expects="an address in quotes",
        key="address",
        otherwise="`holdfast up` starts one, if it is installed",
    )
    space: str = setting(
        "holdfast", "clients of one space reach each other", "one is enough for a file", expects="a name", key="space"
    )
    lanes: str | None = setting(
        None,
        'template of the subjects, such as "plant.{site}.{kind}"',
        "few events need no lanes",
        key="lanes",
        otherwise="a space is one subject",
    )
    body: Literal["native", "json"] = setting(
        "native", "what a message of the bus holds", "many events share a message", key="body"
    )
    up_delay_us: int = setting(
        1_000,
        "of a message from a client to the bus",
        "two machines in one city",
        at_least=0,
        at_most=DELAY_S_MAX * 1_000_000,
        key="up_delay_ms",
    )
    up_loss_ratio: float = setting(
        0.0, "share of messages lost between client and bus", "a network that works", key="up_loss"
    )
    down_delay_us: int = setting(
        1_000,
        "of a message from the bus to a client",
        "as on the way up",
        at_least=0,
        at_most=DELAY_S_MAX * 1_000_000,
        key="down_delay_ms",
    )
    down_loss_ratio: float = setting(
        0.0, "share of messages lost between bus and client", "a network that works", key="down_loss"
    )
    takes_per_s: int | None = setting(
        None,
        "messages a second that a subscriber takes from the bus",
        "most keep up",
        unit="messages",
        at_most=RATE_PER_S_MAX,
        key="takes_per_s",
        otherwise="as many as come",
    )
    queue_max: int = setting(
        10_000,
        "messages that the simulated bus keeps for a subscriber that is slow; one more is dropped",
        "NATS and Redis keep 32 to 64 MiB; live, the bus has its own limit",
        unit="messages",
        at_most=QUEUE_MAX,
        key="queue",
    )

    @property
    def template(self) -> Template:
        """An InputError when there is none by this name."""
        return Template(self.lanes or "", self.space)
