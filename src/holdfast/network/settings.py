"""The settings of a network as a whole, beside those of its mechanisms."""

from dataclasses import dataclass
from typing import Literal

from holdfast.model.settings import Settings, setting
from holdfast.model.tls_settings import TlsSettings
from holdfast.network.limits import PORT_MAX


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

    @property
    def reliable(self) -> bool:
        return self.kind != "udp"
