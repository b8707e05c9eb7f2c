"""The whole network, from a document.

Every part is built with what there is, also after a problem, and adds its own problems; at the end there is a network,
or all problems at once.
"""

from functools import partial
from pathlib import Path
from re import fullmatch

from holdfast.network.building.bus import build_bus
from holdfast.network.building.clients import check_advertisements, check_groups, draft_clients, finish_clients
from holdfast.network.building.faults import build_faults
from holdfast.network.building.graph import Graph, build_graph, check_graph
from holdfast.network.building.workload import (
    build_workload,
    check_roles,
    deal_out_subscriptions,
    window_of,
)
from holdfast.network.document import Document
from holdfast.network.keys.declared import made
from holdfast.network.keys.root import ROOT
from holdfast.network.limits import PORT_MAX
from holdfast.network.problems import KeyPath, NetworkError, Problems
from holdfast.network.schema import Network, Reconfiguration
from holdfast.network.settings import PlanSettings, TransportSettings
from holdfast.network.tables import Values
from holdfast.protocol.gossip.settings import GossipSettings
from holdfast.protocol.hops.settings import DURABLE, HandoverSettings, HopSettings, NackSettings, WatchSettings
from holdfast.protocol.order.settings import LatchSettings
from holdfast.protocol.records.settings import paper
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.recovery.srm.settings import SrmSettings
from holdfast.protocol.replication.settings import ReplicationSettings
from holdfast.protocol.settings import Guarantees, ProtocolSettings, Reliability


def build(document: Document) -> Network:
    problems = Problems(document.place)
    values: Values = ROOT.values(document.data, (), problems)
    seed = values["seed"]
    shape_seed = seed if values["topology"]["seed"] is None else values["topology"]["seed"]

    carrier = build_bus(values, problems)
    graph = build_graph(values, shape_seed, problems)
    brokers = None if graph is None else [broker.id for broker in graph.brokers]
    drafts = draft_clients(values, brokers, shape_seed, problems)
    if brokers is not None:
        drafts = check_roles(values["workload"], drafts, problems)
    workload = build_workload(values["workload"], drafts, document.folder, problems)
    deal_out_subscriptions(values["workload"], drafts, document.folder, problems)
    faults = build_faults(values, graph, drafts, problems)
    reconfiguration = _reconfiguration(values, problems)
    _check_hops(values, problems)
    window = window_of(values["workload"], "workload", values["duration_us"], problems)
    transport = _transport(values["transport"], len(brokers or ()), document, problems)
    protocol = made(ProtocolSettings, values["protocol"], ("protocol",), problems)
    if values["replication"] is not None and values["reliability"]["gossip"] != "none":
        message = "replicas do not gossip: what they would recover nobody has counted for them"
        problems.add(("replication",), message, 'use recovery = "end-to-end", or leave [replication] out')
    if values["replication"] is not None and values["reliability"]["hops"] not in ("basic", "nack"):
        message = f'replicas do not go with hops = "{values["reliability"]["hops"]}", which looks after failures itself'
        problems.add(("replication",), message, 'use hops = "basic" or "nack", or leave [replication] out')
    if values["replication"] is not None and values["routing"] == "destinations":
        message = 'replicas need a tree: with routing = "destinations" events find another way by themselves'
        problems.add(("replication",), message, 'use routing = "advertisements", or leave [replication] out')
    replication = _replication(values, problems)
    check_advertisements(drafts, values["routing"], problems)
    check_groups(drafts, values, problems)
    if graph is not None:
        check_graph(graph, values["routing"], problems)
    clients = finish_clients(drafts, workload, seed, problems)
    reliability = _reliability(values["reliability"], replication, document.folder, problems)
    plan = made(PlanSettings, values["plan"], ("plan",), problems)
    if problems:
        raise NetworkError(document.name, problems.in_order(), problems.more)
    assert isinstance(graph, Graph)
    lossy = values["links"]["lossy_control"]
    return Network(
        name=values["name"] or document.title,
        seed=seed,
        duration_us=values["duration_us"],
        routing=values["routing"],
        brokers=graph.brokers,
        links=graph.links,
        clients=clients,
        workload=workload,
        window=window,
        reliability=reliability,
        plan=plan,
        protocol=protocol,
        lossy_control=not (transport.reliable or carrier) if lossy is None else lossy,  # buses confirm subscriptions
        transport=transport,
        carrier=carrier,
        faults=faults,
        reconfiguration=reconfiguration,
        slice_us=values["slices_us"],
        warnings=tuple(problems.warnings),
        document=document,
    )


def _reconfiguration(values: Values, problems: Problems) -> Reconfiguration | None:
    settings = values["reconfiguration"]
    if settings is None or problems.within("reconfiguration"):
        return None
    for number, entry in enumerate(values["fault"] or ()):
        if entry.get("kind") == "link-replace":
            message = "links are replaced here and by [reconfiguration], which may have taken this one"
            problems.add(("fault", number), message, "use one of the two")
    window = window_of(settings, "reconfiguration", values["duration_us"], problems)
    return Reconfiguration(settings["every_us"], settings["repair_us"], window)


def _reliability(
    values: Values, replication: ReplicationSettings | None, folder: Path, problems: Problems
) -> Reliability:
    of = partial(made, values=values, path=("reliability",), problems=problems)
    hops = HopSettings(values["hops"], of(NackSettings), of(HandoverSettings), of(WatchSettings))
    order = None if values["order"] == "none" else of(LatchSettings, mode=values["order"])
    asks = values["recovery"] == "end-to-end"
    recovery: RecoverySettings | SrmSettings | None = None
    if asks and values["scheme"] == "srm":
        recovery = of(SrmSettings, records=paper(values["filter_bits"]))
    elif asks or order is not None:
        recovery = of(RecoverySettings, asks=asks)
    gossip = None if values["gossip"] == "none" else of(GossipSettings, style=values["gossip"])
    store = None if values["store"] is None else str(folder / values["store"])
    return Reliability(hops, Guarantees(recovery, order), gossip, replication, store)


def _check_hops(values: Values, problems: Problems) -> None:
    """What does not go together. Brokers that store events take a link that was replaced for one that has failed."""
    hops = values["reliability"]["hops"]
    if hops in ("multipath", "hybrid") and values["routing"] != "destinations":
        message = f'"{hops}" needs to know all ways, routing "{values["routing"]}" knows one'
        problems.add(("reliability", "hops"), message, 'write routing = "destinations"')
    if hops not in DURABLE and values["reliability"]["store"] is not None:
        message = f'with hops = "{hops}" brokers store nothing'
        problems.add(("reliability", "store"), message, 'write hops = "retransmission" or "hybrid", or leave store out')
    if hops not in DURABLE or problems.within("reliability"):
        return
    if values["reliability"]["gossip"] != "none":
        message = f'with hops = "{hops}" nothing is lost that gossip could recover'
        problems.add(("reliability", "gossip"), message, 'write gossip = "none"')
    places: list[KeyPath] = [("reconfiguration",)] if values["reconfiguration"] is not None else []
    for number, entry in enumerate(values["fault"] or ()):
        if entry.get("kind") == "link-replace":
            places.append(("fault", number))
    for place in places:
        message = f'with hops = "{hops}" brokers keep events for a link that is gone, as if it had failed'
        problems.add(place, message, 'use another hops, or links that fail: "link-down", mtbf_s')


def _replication(values: Values, problems: Problems) -> ReplicationSettings | None:
    given = values["replication"]
    if given is None or problems.within("replication"):
        return None
    if given["directory"] is not None and not fullmatch(r"zookeeper://[^/]+:\d+(/.*)?", given["directory"]):
        message = f"{given['directory']} is no directory"
        problems.add(("replication", "directory"), message, 'write it as "zookeeper://127.0.0.1:2181/holdfast"')
    return made(ReplicationSettings, given, ("replication",), problems)


def _transport(values: Values, brokers: int, document: Document, problems: Problems) -> TransportSettings:
    taken: list[int] = []
    for name in ("port", "metrics_port", "mqtt_port"):
        first = values[name]
        if not first:
            continue
        if first + brokers - 1 > PORT_MAX:
            message = f"{first} and the next {brokers - 1:,}, one a broker, go beyond {PORT_MAX}"
            problems.add(("transport", name), message, f"begin at {PORT_MAX - brokers + 1} or lower")
        for other in taken:
            if abs(first - other) < brokers:
                low, high = sorted((first, other))
                message = f"the {brokers:,} ports from {low} on and those from {high} on overlap"
                problems.add(("transport", name), message, f"keep them {brokers} apart")
        if name != "port" or values["kind"] != "udp":  # ports of UDP are others than those of TCP
            taken.append(first)
    paths = {}
    for name in ("certificate", "key", "ca"):
        found = values[name]
        if found is not None and not (document.folder / found).is_file():
            problems.add(("transport", name), f"there is no file {document.folder / found}")
        elif found is None and values["kind"] == "tls":
            problems.add(("transport",), f'"{name}" is missing', 'kind = "tls" needs it')
        paths[name] = None if found is None else str(document.folder / found)
    return made(TransportSettings, values | paths, ("transport",), problems)
