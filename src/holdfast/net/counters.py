"""What a live node counts, so that nothing is lost silently."""

from dataclasses import asdict, dataclass, field

# Counters that stay 0 while all is well; whoever keeps a trace or a log tells of them when they grow.
WORTH_TELLING = ("dropped", "oversized", "unsent", "bad_frames")


@dataclass
class Counters:
    received: int = 0  # messages
    sent: int = 0
    dropped: int = 0  # events, because a neighbour was too slow
    oversized: int = 0  # messages that no frame of the transport can hold
    lost: int = 0  # by an injected fault
    unsent: int = 0  # messages still waiting when a connection ended
    nowhere: int = 0  # messages to a neighbour that is not connected
    bad_frames: int = 0
    refused: int = 0  # nodes that wanted to connect
    tls_refused: int = 0  # connections that failed the TLS handshake
    incidents: dict[str, int] = field(default_factory=dict)

    def note(self, kind: str, times: int = 1) -> None:
        self.incidents[kind] = self.incidents.get(kind, 0) + times

    def as_json(self) -> dict[str, object]:
        return asdict(self)
