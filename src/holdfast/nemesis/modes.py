"""The modes in which a network is attacked: which settings each one is, and what it promises.

A mode is a few values on top of the network file, as `--set` would give them. What the file says beside them stays. The
promises are those of docs/live.md, docs/recovery.md and docs/hops.md; what a mode does not promise is counted and
convicts nobody.
"""

from dataclasses import dataclass, field
from typing import Any

from holdfast.model.errors import InputError
from holdfast.model.validation import did_you_mean

_PLAIN: dict[str, Any] = {
    "transport.kind": "tcp",
    "reliability.hops": "basic",
    "reliability.recovery": "none",
    "reliability.order": "none",
    "reliability.gossip": "none",
}


@dataclass(frozen=True)
class Mode:
    name: str
    settings: dict[str, Any] = field(hash=False)
    names_losses: bool  # every event that does not come is named
    by_incident: bool = False  # a broker's report counts as a name: clients do not hear of all losses
    in_order: bool = False  # the events of one publisher come in its order
    stores: bool = False  # what was acknowledged survives, and subscriptions outlive their process
    keeps: bool = False  # brokers keep events for a neighbour that is gone, until it is back or replaced
    any_graph: bool = False  # it makes use of a second path
    mqtt: bool = False  # its clients speak MQTT, with quality of service 1: at least once

    @property
    def udp(self) -> bool:
        return bool(self.settings["transport.kind"] == "udp")


def _mode(name: str, settings: dict[str, Any], **promises: bool) -> Mode:
    return Mode(name, {**_PLAIN, **settings}, **{"names_losses": True, **promises})


_RECOVERY = {"reliability.recovery": "end-to-end"}
_GRAPH = {"routing": "destinations"}
MODES: dict[str, Mode] = {
    each.name: each
    for each in (
        _mode("best-effort", {}),
        _mode("recovery", _RECOVERY),
        _mode("fifo", {**_RECOVERY, "reliability.order": "fifo"}, in_order=True),
        _mode("strict", {**_RECOVERY, "reliability.order": "strict"}, in_order=True),
        _mode("durable", {"reliability.hops": "retransmission"}, in_order=True, stores=True),
        _mode("mqtt", {"reliability.hops": "retransmission"}, in_order=True, stores=True, mqtt=True),
        _mode("nack-udp", {"transport.kind": "udp", "reliability.hops": "nack"}),
        _mode("multipath", {**_GRAPH, "reliability.hops": "multipath"}, by_incident=True, any_graph=True),
        _mode("hybrid", {**_GRAPH, "reliability.hops": "hybrid"}, stores=True, any_graph=True),
        _mode("gossip", {"reliability.gossip": "reconcile"}, by_incident=True),
        _mode("replication", {"replication.protocol": "ordered"}, by_incident=True, keeps=True),
    )
}


def modes_named(names: str) -> list[Mode]:
    """The modes in a list such as `strict,durable`; `all` is all of them."""
    wanted = list(MODES) if names == "all" else [each.strip() for each in names.split(",") if each.strip()]
    if not wanted:
        raise InputError(f"--modes: expected a list such as strict,durable; there are {', '.join(MODES)}")
    for each in wanted:
        if each not in MODES:
            hint = did_you_mean(each, MODES) or f"there are {', '.join(MODES)}"
            raise InputError(f"--modes: there is no mode {each!r}; {hint}")
    return [MODES[each] for each in dict.fromkeys(wanted)]
