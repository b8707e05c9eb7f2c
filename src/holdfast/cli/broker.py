"""`holdfast broker`: run one broker."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from holdfast.cli.broker_process import Log, Metrics, Operation, serve
from holdfast.cli.connection_options import (
    DEFAULT_BROKER,
    Authority,
    BrokerKey,
    Certificate,
    Directory,
    HopsOf,
    PrivateKey,
    Rights,
    TokenKeys,
)
from holdfast.cli.console_options import BrokerConsolePlace, console_place
from holdfast.cli.flags import flag
from holdfast.cli.peers import peers_from
from holdfast.model.errors import InputError
from holdfast.model.extras import extras_named
from holdfast.model.settings import declared
from holdfast.model.validation import did_you_mean
from holdfast.mqtt.settings import MqttSettings
from holdfast.net.address import parse_address
from holdfast.net.history_settings import HistorySettings
from holdfast.net.http import parse_place
from holdfast.net.settings import NodeSettings
from holdfast.net.setup import finite
from holdfast.net.tls import TlsFiles
from holdfast.protocol.hops.settings import DURABLE, Hops, HopSettings
from holdfast.protocol.settings import Routing
from holdfast.store.log import Retention
from holdfast.trust.budget import BudgetSettings

Listen = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ADDRESS",
        help="tcp://, tls:// or udp://; mqtt://, mqtts://, ws:// or wss:// for clients of MQTT; may be repeated. "
        f"[default: {DEFAULT_BROKER}]",
    ),
]
Peer = Annotated[
    list[str] | None, typer.Option(metavar="NAME=ADDRESS", help="A broker to connect to; may be repeated.")
]
MqttTopic = Annotated[str, flag(MqttSettings, "topic", "--mqtt-topic", metavar="TEMPLATE")]
MqttJson = Annotated[
    list[str] | None,
    typer.Option("--mqtt-json", metavar="FILTER", help="Read payloads of these topics as JSON; may be repeated."),
]
MqttRecovery = Annotated[bool, flag(MqttSettings, "recovery", "--mqtt-recovery")]
MqttOrder = Annotated[
    Literal["none", "fifo", "strict"], flag(MqttSettings, "order", "--mqtt-order", metavar="none|fifo|strict")
]

PeersFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A file with more peers, NAME = ADDRESS on each line; read again on SIGHUP."),
]
HistoryFolder = Annotated[Path | None, flag(HistorySettings, "folder", "--history", metavar="FOLDER")]
HistoryOf = Annotated[str, flag(HistorySettings, "condition", "--history-of", metavar="CONDITION")]
HistoryMegabytes = Annotated[float, flag(Retention, "keep_bytes", "--history-mb", unit="megabytes")]
HistoryHours = Annotated[float, flag(Retention, "keep_s", "--history-hours", unit="hours")]


Replaceable = Annotated[
    bool,
    typer.Option(
        "--replaceable", help="Keep events for a neighbour that fails, for a minute, for `holdfast replicate`."
    ),
]
Preload = Annotated[
    bool,
    typer.Option(
        "--preload",
        help="Load the compiled matcher before listening: a second or two later, 180 MB more, and no pauses of a tenth "
        "of a second when conditions become many.",
    ),
]
Budget = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=NUMBER",
        help="What a connection or an identity may cost, such as identity_connections=100; may be repeated.",
    ),
]


def run(
    id_: Annotated[str, flag(NodeSettings, "name", "--id", metavar="NAME")],
    listen: Listen = None,
    peer: Peer = None,
    peers: PeersFile = None,
    routing: Annotated[Routing, flag(NodeSettings, "routing")] = NodeSettings.routing,
    push_back: Annotated[bool, flag(NodeSettings, "push_back", "--push-back")] = NodeSettings.push_back,
    hops: HopsOf = HopSettings.hops,
    store: Annotated[Path | None, flag(NodeSettings, "store", metavar="FILE")] = NodeSettings.store,
    replaceable: Replaceable = False,
    directory: Directory = None,
    certificate: Certificate = None,
    key: PrivateKey = None,
    ca: Authority = None,
    mqtt_topic: MqttTopic = MqttSettings.topic,
    mqtt_json: MqttJson = None,
    mqtt_recovery: MqttRecovery = MqttSettings.recovery,
    mqtt_order: MqttOrder = MqttSettings.order,
    broker_key: BrokerKey = None,
    token_keys: TokenKeys = None,
    rights: Rights = None,
    history: HistoryFolder = None,
    history_of: HistoryOf = HistorySettings.condition,
    history_mb: HistoryMegabytes = Retention.keep_bytes / 2**20,
    history_hours: HistoryHours = Retention.keep_s / 3_600,
    budget: Budget = None,
    preload: Preload = False,
    metrics: Metrics = None,
    console: BrokerConsolePlace = None,
    log: Log = "text",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON objects.")] = False,
) -> None:
    """Run one broker until Ctrl-C or SIGTERM. Peers may start in any order; the broker dials a missing one again.

    Prints a line when it is ready and one with its counters when it has stopped, and logs incidents to stderr. On
    SIGHUP it reads its files again: it dials new peers, disconnects removed ones and those who could not prove any more
    who they are, and leaves the others alone.

    \b
    Example:
      holdfast broker --id b1 --listen tcp://127.0.0.1:7001
      holdfast broker --id b2 --listen tcp://127.0.0.1:7002 --peer b1=tcp://127.0.0.1:7001
      holdfast broker --id b1 --listen tcp://127.0.0.1:7001 --listen mqtt://127.0.0.1:1883
      holdfast broker --id b1 --listen tcp://127.0.0.1:7001 --history past --history-of "class = 'order'"
      holdfast broker --id b3 --listen tcp://127.0.0.1:7003 --peers peers.txt --metrics 127.0.0.1:9103 --log json
    """
    from holdfast.net.event_loop import run as run_loop
    from holdfast.trust.settings import TrustSettings

    _check_store(hops, store)
    places = None if metrics is None else parse_place(metrics), console_place(console)
    read_peers = partial(peers_from, peer or (), peers)
    settings = NodeSettings(
        id_,
        tuple(parse_address(each) for each in listen or [DEFAULT_BROKER]),
        read_peers(),
        routing,
        tls=TlsFiles(certificate, key, ca),
        trust=TrustSettings(broker_key, token_keys, rights),
        budgets=_budgets(budget or ()),
        push_back=push_back,
        hops=HopSettings(hops),
        store=store,
        mqtt=MqttSettings(mqtt_topic, tuple(mqtt_json or ()), mqtt_recovery, mqtt_order),
        history=_history(history, history_of, history_mb, history_hours),
        **_replication(replaceable, directory, routing, hops),
    )
    if preload:
        _preload()
    run_loop(serve(settings, Operation(as_json, log, *places, None if peers is None else read_peers)))


def _history(folder: Path | None, condition: str, megabytes: float, hours: float) -> HistorySettings | None:
    finite(megabytes, "--history-mb", "megabytes")
    finite(hours, "--history-hours", "hours")
    if folder is None:
        if condition != HistorySettings.condition:
            raise InputError("--history-of: say where events are kept with --history FOLDER")
        return None
    return HistorySettings(folder, condition, Retention(int(megabytes * 2**20), hours * 3_600))


def _preload() -> None:
    with extras_named():
        from holdfast.matching import collector
        from holdfast.matching.levels import load_kernels

        collector.own_process()
        load_kernels()


def _budgets(given: Sequence[str]) -> BudgetSettings:
    numbers: dict[str, int] = {}
    for each in given:
        name, _, number = (part.strip() for part in each.partition("="))
        if name not in declared(BudgetSettings):
            near = did_you_mean(name, declared(BudgetSettings))
            raise InputError(f"--budget {each}: {near or 'there are ' + ', '.join(declared(BudgetSettings))}")
        if not number.isdecimal():
            raise InputError(f"--budget {each}: expected NAME=NUMBER, such as {name}={getattr(BudgetSettings, name)}")
        numbers[name] = int(number)
    return BudgetSettings(**numbers)


def _check_store(hops: Hops, store: Path | None) -> None:
    if hops in DURABLE and store is None:
        raise InputError(f"--hops {hops} stores events: say where with --store FILE")
    if hops not in DURABLE and store is not None:
        raise InputError(f"--store: --hops {hops} stores nothing; use --hops {' or '.join(DURABLE)}, or no --store")


def _replication(replaceable: bool, directory: str | None, routing: Routing, hops: Hops) -> dict[str, Any]:
    """Its part of the settings."""
    from holdfast.net.directory import directory_at
    from holdfast.protocol.replication.settings import ReplicationSettings

    if not replaceable:
        if directory is not None:
            raise InputError("--directory: only brokers with --replaceable need one")
        return {}
    if routing == "destinations":
        raise InputError('--replaceable: replicas need a tree; use --routing "advertisements" or "subscriptions"')
    if hops not in ("basic", "nack"):
        raise InputError(f"--replaceable does not go with --hops {hops}; use basic or nack")
    where = None if directory is None else directory_at(directory)
    return {"replication": ReplicationSettings(directory=directory), "directory": where}
