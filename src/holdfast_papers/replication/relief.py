"""A broker with too much to do for a while: relief replicas come by themselves, share, and are released.

It is the real simulator with real brokers, heartbeats and limits; paper 003 says what relief is for and gives no load.
Three brokers around one that takes some time for each message; what they publish is for some seconds two and a half
times what it can do, as in the congestion that the paper measures, and a tenth of that before and afterwards.
"""

from dataclasses import replace
from typing import Any

from holdfast.books.replication_promises import EventId, incomplete, unordered
from holdfast.model.messages import Publication
from holdfast.network.load import parse_text
from holdfast.network.schema import Network
from holdfast.protocol.effects import Delivered, Incident
from holdfast.sim.host import Host
from holdfast.sim.simulator import Simulation

_SERVICE_MS, _LOAD, _QUIET = 10, 2.5, 0.1  # times what the broker can do
_FROM_S, _UNTIL_S, _END_S = 10, 40, 100
_LIMIT_MS, _QUEUE = 500, 50  # as many messages as half a second brings
_ENDS = "abc"
_SENDERS = 30


def network(relieve: dict[str, Any], seed: int) -> Network:
    capacity = 1_000 / _SERVICE_MS
    every_s = {rate: _SENDERS / (rate * capacity) for rate in (_LOAD, _QUIET)}
    clients: list[dict[str, Any]] = []
    for number in range(_SENDERS):
        end, part = _ENDS[number % 3], number / _SENDERS
        publish = [
            {"at_s": 2 + part * every_s[_QUIET], "every_s": every_s[_QUIET], "attributes": {"v": 1}},
            {"at_s": _FROM_S + part * every_s[_LOAD], "every_s": every_s[_LOAD], "until_s": _UNTIL_S}
            | {"attributes": {"v": 2}},
        ]
        clients.append({"id": f"p{number}", "broker": end, "advertisements": ["v > 0"], "publish": publish})
    clients += [{"id": f"{side}{end}", "broker": end, "subscriptions": ["v > 0"]} for end in _ENDS for side in "st"]
    made = parse_text(
        {
            "routing": "advertisements",
            "duration_s": _END_S,
            "broker": [*({"id": end} for end in _ENDS), {"id": "f", "service_ms": _SERVICE_MS, "queue": 1_000_000}],
            "topology": {"links": [[end, "f"] for end in _ENDS]},
            "links": {"delay_ms": 1},
            "client": clients,
            "replication": {"protocol": "synchronous", "release_s": 5, **relieve},
        }
    )
    return replace(made, seed=seed)


class Wave(Simulation):
    def __init__(self, relieve: dict[str, Any], seed: int) -> None:
        self.got: dict[str, list[EventId]] = {}
        self.delays_us: list[tuple[int, int]] = []  # when an event was published, and how long it took
        self.at_us: dict[str, list[int]] = {}  # incident -> when it was noted
        super().__init__(network(relieve, seed), seed)

    def _deliver(self, host: Host, effect: Delivered) -> None:
        super()._deliver(host, effect)
        publication: Publication = effect.publication
        self.got.setdefault(host.name, []).append((publication.source, publication.seq))
        self.delays_us.append((publication.time_us, self.now_us - publication.time_us))

    def note(self, node: str, incident: Incident) -> None:
        super().note(node, incident)
        self.at_us.setdefault(incident.kind, []).append(self.now_us)


def control_sent(wave: Wave) -> int:
    """Messages so far, but for those that carry events."""
    tallies = [host.tallies for host in wave.hosts.values()]
    return sum(tally.sent for each in tallies for kind, tally in each.items() if kind not in ("Publish", "Deliver"))


def measure_relief(name: str, seed: int) -> dict[str, Any]:
    wave = Wave(RELIEVE[name], seed)
    counts: dict[int, int] = {}
    for at_s in (_FROM_S - 6, _FROM_S - 1, _END_S - 6, _END_S - 1):  # twice five heartbeats, as all that recurs does
        wave.at(at_s * 1_000_000, lambda at_s=at_s: counts.update({at_s: control_sent(wave)}))  # type: ignore[misc]
    wave.run()
    before, after = counts[_FROM_S - 1] - counts[_FROM_S - 6], counts[_END_S - 1] - counts[_END_S - 6]
    middle_us = (_FROM_S + _UNTIL_S) * 500_000
    late = sorted(took for at_us, took in wave.delays_us if middle_us <= at_us < _UNTIL_S * 1_000_000)
    alike = [(f"s{end}", f"t{end}") for end in _ENDS] + [("sa", "sb"), ("sb", "sc")]
    broken = incomplete(wave.got, alike), unordered(wave.got)
    return {
        "replicas": len(wave.at_us.get("replica_ready", ())),
        "released": len(wave.at_us.get("replica_released", ())),
        "complete": None if broken[0] is None else str(broken[0]),
        "ordered": None if broken[1] is None else str(broken[1]),
        "messages_before": before / 5,
        "messages_after": after / 5,
        "late_ms": late[round(0.99 * (len(late) - 1))] / 1_000,
    }


# How many replicas there may be, and by what they are asked for.
RELIEVE: dict[str, dict[str, Any]] = {
    "queue, one": {"relieve_queue": _QUEUE, "relief_replicas": 1},
    "queue, three": {"relieve_queue": _QUEUE, "relief_replicas": 3},
    "delay, three": {"relieve_delay_ms": _LIMIT_MS, "relief_replicas": 3},
}
