"""Which room may import which. ARCHITECTURE.md has the picture."""

from collections.abc import Iterator

from tests.house.tree import imports, parsed

_BELOW_CLI = frozenset(
    "model language matching protocol wire mqtt trust network store books sim net carriers gateway planner "
    "pipeline".split()
)
_DRIVER = frozenset({"model", "language", "matching", "protocol", "wire", "network", "store", "books"})

SEES: dict[str, frozenset[str]] = {
    "model": frozenset(),
    "language": frozenset({"model"}),
    "matching": frozenset({"model", "language"}),
    "protocol": frozenset({"model", "language"}),
    "wire": frozenset({"model", "language"}),
    "mqtt": frozenset({"model", "language"}),
    "trust": frozenset({"model", "language"}),  # who somebody is and may do; it neither listens nor dials
    "network": frozenset({"model", "language", "protocol"}),  # it holds the settings of every mechanism
    "store": frozenset({"model", "language", "protocol", "wire"}),  # it keeps what the protocol hands it, and finds it
    "books": _DRIVER - {"store", "books"},  # of a run, whoever drove it
    "sim": _DRIVER,
    "net": _DRIVER | {"trust", "mqtt"},  # mqtt: what a broker says to clients of MQTT
    # Clients of a bus; the stub broker that stands for it knows tables and control messages, as brokers and clients do.
    # network: a file may have a bus in the place of brokers.
    "carriers": frozenset({"model", "language", "protocol", "wire", "trust", "network", "net", "store"}),
    "gateway": frozenset(
        {"model", "language", "protocol", "wire", "store", "net", "carriers"}
    ),  # a client of a network or a bus, with a log
    # It starts nodes as their users do, with the settings of the file; its judge sees nothing of the product: _JUDGE.
    "nemesis": frozenset({"model", "protocol", "network", "net", "carriers"}),
    "planner": frozenset({"model", "language", "matching", "network"}),  # it matches to learn who wants what
    "pipeline": _BELOW_CLI - {"net", "gateway"},  # but see _LIVE
    "console": _BELOW_CLI
    - {"sim", "gateway", "pipeline"},  # a network in a browser: it looks, asks, and starts nothing
    "demo": _BELOW_CLI,  # it shows what all the others do
    "cli": _BELOW_CLI | {"demo", "nemesis", "console"},
    "spark": _BELOW_CLI,  # the front door of pipeline, for other people's jobs
    "testing": _BELOW_CLI,  # the conformance kit that we ship; nothing of ours depends on it
    "__init__": _BELOW_CLI,
    "__main__": frozenset({"cli"}),
}

DRIVERS = ("sim", "net")
CONTRACT = frozenset(
    "client_rights replay store_changes conditions effects message_kind node parts settings stack".split()
)
"""What drivers may import of protocol, beside the settings of each mechanism: a driver knows nodes and no mechanism."""
PAPERS = "holdfast_papers"  # imports the product; the product finds its verb by an entry point and imports none of it
_APART = {"holdfast.pipeline.audit": "holdfast.pipeline.report"}  # a report shows an audit, which knows no report
_JUDGE = "holdfast.nemesis.judge"  # it shares no code with what it judges
_JUDGE_SEES = (f"{_JUDGE}.", "holdfast.nemesis.journal.")
_LIVE = "live"  # the only part of pipeline that touches net and gateway: the source and the sink
_OLD_NAMES = {"holdfast.wire.runs": "books"}  # documented by version 0.1: they lead to where things live now


def wrong_arrows(source: str, module: str) -> Iterator[str]:
    """What a module of ours (`holdfast.room.file`) imports against the table, as messages."""
    _, room, *inner = module.split(".")
    if room not in SEES:
        yield f"{module}: room {room!r} has no row in tests/house/arrows.py; give it one"
        return
    allowed = SEES[room] | {room}
    if room == "pipeline" and inner[:1] == [_LIVE]:
        allowed |= {"net", "gateway"}
    allowed |= {_OLD_NAMES[module]} if module in _OLD_NAMES else set()
    for line, name in imports(parsed(source), module):
        for package, hidden in _APART.items():
            if module.startswith(f"{package}.") and f"{name}.".startswith(f"{hidden}."):
                yield f"{module}:{line}: {package} may not import {hidden}"
        top, _, rest = name.partition(".")
        if module.startswith(f"{_JUDGE}.") and top == "holdfast" and not f"{name}.".startswith(_JUDGE_SEES):
            yield f"{module}:{line}: the judge may not import {name}; it shares no code with what it judges"
        if top == PAPERS:
            yield f"{module}:{line}: the product may not import {PAPERS}"
        target, _, inside = rest.partition(".")
        if room in DRIVERS and target == "protocol" and _is_mechanism(inside):
            seen = ", ".join(sorted(CONTRACT))
            yield f"{module}:{line}: drivers know no mechanism, but {inside}: of protocol they see {seen} and settings"
        if top != "holdfast" or target in allowed or target == "__version__":
            continue
        if target in SEES:
            seen = ", ".join(sorted(allowed - {room})) or "no other room"
            yield f"{module}:{line}: {room} may not import {target}; it sees {seen}"
        else:
            yield f"{module}:{line}: import {name} from the room it lives in, not through the front door"


def _is_mechanism(inside: str) -> bool:
    """Whether a name in protocol is neither part of the contract nor of a mechanism's settings."""
    first, *others = inside.split(".")
    return first not in CONTRACT and "settings" not in others
