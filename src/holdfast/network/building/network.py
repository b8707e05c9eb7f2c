"""The whole network, from a document.

Every part is built with what there is, also after a problem, and adds its own problems; at the end there is a network,
or all problems at once.
"""

from dataclasses import replace
from pathlib import Path
from re import fullmatch

from holdfast.network.building.clients import check_advertisements, draft_clients, finish_clients
from holdfast.network.building.faults import build_faults
from holdfast.network.building.graph import Graph, build_graph, check_graph
from holdfast.network.building.workload import (
    build_workload,
    check_roles,
    deal_out_subscriptions,
    window_of,
)
from holdfast.network.document import Document
from holdfast.network.keys.root import ROOT
from holdfast.network.limits import PORT_MAX
from holdfast.network.problems import KeyPath, NetworkError, Problems
from holdfast.network.schema import Network, PlanSettings, Reconfiguration, Reliability, Transport
from holdfast.network.tables import Values
from holdfast.protocol.gossip.settings import GossipSettings
from holdfast.protocol.hops.settings import DURABLE, HandoverSettings, HopSettings, NackSettings, WatchSettings
from holdfast.protocol.order.settings import LatchSettings
from holdfast.protocol.records.bloom import SIZES
from holdfast.protocol.records.settings import paper
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.recovery.srm.settings import SrmSettings
from holdfast.protocol.replication.settings import ReplicationSettings
from holdfast.protocol.settings import Guarantees, ProtocolSettings


def build(document: Document) -> Network:
    problems = Problems(document.place)
    values: Values = ROOT.values(document.data, (), problems)
    seed = values["seed"]
    shape_seed = seed if values["topology"]["seed"] is None else values["topology"]["seed"]

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
    window = window_of(values["workload"], "workload", values["duration_s"], problems)
    transport = _transport(values["transport"], len(brokers or ()), document, problems)
    protocol = _protocol(values["protocol"], problems)
    if values["replication"] is not None and _gossip(values["reliability"]) is not None:
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
    if graph is not None:
        check_graph(graph, values["routing"], problems)
    clients = finish_clients(drafts, workload, seed, problems)
    if problems:
        raise NetworkError(document.name, problems.in_order(), problems.more)
    assert isinstance(graph, Graph)
    lossy = values["links"]["lossy_control"]
    return Network(
        name=values["name"] or document.title,
        seed=seed,
        duration_us=values["duration_s"],
        routing=values["routing"],
        brokers=graph.brokers,
        links=graph.links,
        clients=clients,
        workload=workload,
        window=window,
        reliability=_reliability(values["reliability"], document.folder, problems),
        plan=PlanSettings(**values["plan"]),
        replication=replication,
        protocol=protocol,
        lossy_control=not transport.reliable if lossy is None else lossy,
        transport=transport,
        faults=faults,
        reconfiguration=reconfiguration,
        slice_us=values["slices_s"],
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
    window = window_of(settings, "reconfiguration", values["duration_s"], problems)
    return Reconfiguration(settings["every_s"], settings["repair_s"], window)


def _reliability(values: Values, folder: Path, problems: Problems) -> Reliability:
    recovery = _recovery(values, problems)
    order = None
    if values["order"] != "none":
        order = LatchSettings(values["order"], values["late"], values["order_estimator"], values["order_target"])
    wanted = values["recovery"] == "end-to-end" or order is not None
    store = None if values["store"] is None else str(folder / values["store"])
    guarantees = Guarantees(recovery if wanted else None, order)
    return Reliability(_hops(values), guarantees, _gossip(values), store)


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


def _hops(values: Values) -> HopSettings:
    nack = NackSettings(ring=values["link_ring"], idle_us=values["link_idle_ms"], tries=values["link_tries"])
    handover = HandoverSettings(
        window=values["window"],
        stored_max=values["stored"],
        keep_us=values["keep_s"],
        away_max=values["away"],
        published_max=values["published"],
    )
    return HopSettings(values["hops"], nack, handover, WatchSettings(beat_us=values["beat_ms"], phi=values["phi"]))


def _gossip(values: Values) -> GossipSettings | None:
    if values["gossip"] == "none":
        return None
    return GossipSettings(
        style=values["gossip"],
        interval_us=values["gossip_interval_s"],
        buffer=values["gossip_buffer"],
        forward_ratio=values["gossip_forward"],
        source_ratio=values["gossip_source"],
        lost_us=values["gossip_lost_s"],
        adaptive=values["gossip_adaptive"],
        transfer=values["gossip_transfer"],
        transfer_delay_us=values["gossip_transfer_ms"],
        transfer_loss_ratio=values["gossip_transfer_loss"],
    )


def _recovery(values: Values, problems: Problems) -> RecoverySettings | SrmSettings:
    asks, record, bits = values["recovery"] == "end-to-end", values["record"], values["filter_bits"]
    if bits not in SIZES and not problems.within("reliability"):
        problems.add(("reliability", "filter_bits"), f"a filter of {bits} bits is none of {SIZES}")
        bits = SIZES[-1]
    if asks and values["scheme"] == "srm":
        settings = SrmSettings(records=paper(bits), publisher_cache=values["publisher_cache"])
        return settings if record is None else replace(settings, record=record)
    return RecoverySettings(
        digest_us=values["digest_s"],
        told=values["told"],
        record=0 if record is None else record,
        kept_max=values["kept"],
        search_us=values["search_s"],
        asks=asks,
    )


def _protocol(values: Values, problems: Problems) -> ProtocolSettings:
    if values["lease_s"] <= values["heartbeat_s"] and not problems.within("protocol"):
        message = "a neighbour would be forgotten between two heartbeats"
        problems.add(("protocol", "lease_s"), message, "make it three times heartbeat_s or more")
    times = {f"{name}_us": values[f"{name}_s"] for name in ("heartbeat", "lease", "session")}
    return ProtocolSettings(**times, **{name: value for name, value in values.items() if not name.endswith("_s")})


def _replication(values: Values, problems: Problems) -> ReplicationSettings | None:
    given = values["replication"]
    if given is None or problems.within("replication"):
        return None
    if given["directory"] is not None and not fullmatch(r"zookeeper://[^/]+:\d+(/.*)?", given["directory"]):
        message = f"{given['directory']} is no directory"
        problems.add(("replication", "directory"), message, 'write it as "zookeeper://127.0.0.1:2181/holdfast"')
    return ReplicationSettings(
        copying=given["protocol"],
        replace=given["replace"],
        relieve_queue=given["relieve_queue"],
        reorder=given["reorder"],
        suspect_us=given["suspect_s"],
        patience_us=given["patience_s"],
        pending_max=given["pending"],
        provision_us=given["start_s"],
        directory=given["directory"],
    )


def _transport(values: Values, brokers: int, document: Document, problems: Problems) -> Transport:
    for name in ("port", "metrics_port"):
        if values[name] and values[name] + brokers - 1 > PORT_MAX:
            message = f"{values[name]} and the next {brokers - 1:,}, one a broker, go beyond {PORT_MAX}"
            problems.add(("transport", name), message, f"begin at {PORT_MAX - brokers + 1} or lower")
    low, high = sorted((values["port"], values["metrics_port"] or 0))
    if values["kind"] != "udp" and low and high - low < brokers:
        message = f"the {brokers:,} ports from {low} on and those from {high} on overlap"
        problems.add(("transport", "metrics_port"), message, f"keep them {brokers} apart")
    paths = {}
    for name in ("certificate", "private_key", "authority"):
        found = values[name]
        if found is not None and not (document.folder / found).is_file():
            problems.add(("transport", name), f"there is no file {document.folder / found}")
        elif found is None and values["kind"] == "tls":
            problems.add(("transport",), f'"{name}" is missing', 'kind = "tls" needs it')
        paths[name] = None if found is None else str(document.folder / found)
    return Transport(values["kind"], values["host"], values["port"], values["metrics_port"], **paths)
