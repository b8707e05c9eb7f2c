"""A broker's state in the text format of Prometheus (version 0.0.4), which most monitoring systems read.

The format is a handful of lines for each metric, so it is written here; the client library of Prometheus is made for
programs that count by its own objects, and we have our counters already. Whether it is right is judged by that
library's parser, in a test. Clients are added up instead of named: a series for each would outlive it by weeks.
"""

import os
import resource
import sys
from collections.abc import Iterable, Iterator, Mapping
from time import time

from holdfast import __version__
from holdfast.net.status import Status

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_COUNTED = {
    "received": ("messages_received", "Messages received from neighbours."),
    "sent": ("messages_sent", "Messages sent to neighbours, including queued ones."),
    "dropped": ("events_dropped", "Events dropped because a neighbour was too slow."),
    "oversized": ("messages_oversized", "Messages too large for the transport."),
    "lost": ("messages_lost", "Messages dropped by injected faults."),
    "unsent": ("messages_unsent", "Messages still queued when a connection ended."),
    "nowhere": ("messages_nowhere", "Messages to a neighbour that was not connected."),
    "bad_frames": ("frames_bad", "Invalid frames received."),
    "refused": ("connections_refused", "Connections refused."),
    "tls_refused": ("tls_handshakes_refused", "Connections that failed the TLS handshake."),
}
_BEGAN_S = time()

_Samples = Iterable[tuple[Mapping[str, str], float]]


def exposition(status: Status) -> str:
    return "".join([*_broker(status), *_queues(status), *_store(status), *_counters(status), *_process()])


def _broker(status: Status) -> Iterator[str]:
    about = {"broker": status.broker, "routing": status.routing, "hops": status.hops, "version": __version__}
    yield _gauge("info", "What this broker is; always 1.", [(about, 1)])
    yield _gauge("healthy", "1 when /health answers 200.", [({}, not status.problems)])
    up = [({"peer": name}, float(there)) for name, there in status.peers.items()]
    yield _gauge("peer_connected", "Whether there is a connection to this broker.", up)
    yield _gauge("clients", "Clients that are connected.", [({}, status.clients)])
    values = [({"what": name}, float(value)) for name, (value, _) in status.gauges.items()]
    limits = [({"what": name}, float(limit)) for name, (_, limit) in status.gauges.items()]
    yield _gauge("held", "What the broker holds in its tables, stores and caches.", values)
    yield _gauge("held_limit", "Limit of holdfast_held.", limits)


def _queues(status: Status) -> Iterator[str]:
    brokers, clients = status.broker_queues, status.client_queues
    waiting = [({"neighbour": name}, float(queue.messages)) for name, queue in brokers.items()]
    held = [({"neighbour": name}, float(queue.bytes)) for name, queue in brokers.items()]
    yield _gauge("queue_messages", "Messages queued for a broker; a batch of events counts as one.", waiting)
    yield _gauge("queue_bytes", "Bytes queued for a broker.", held)
    yield _gauge("client_queue_bytes", "Bytes queued for all clients.", [({}, sum(each.bytes for each in clients))])
    fullest = max((each.bytes for each in clients), default=0)
    yield _gauge("client_queue_bytes_max", "Bytes queued for the client with the largest backlog.", [({}, fullest)])
    yield _gauge("queue_bytes_limit", "Limit of the bytes queued for one neighbour.", [({}, status.queue_bytes_max)])


def _store(status: Status) -> Iterator[str]:
    if status.store is not None:
        yield _gauge("store_writable", "0 while the store cannot be written.", [({}, status.store.problem is None)])
        yield _gauge("store_unwritten", "Changes not synced to disk yet.", [({}, status.store.unwritten)])
        yield _gauge("store_bytes", "Size of the store's files.", [({}, status.store.file_bytes)])


def _counters(status: Status) -> Iterator[str]:
    for field, (name, help_) in _COUNTED.items():
        yield _counter(f"holdfast_{name}_total", help_, [({}, getattr(status.counters, field))])
    kinds = [({"kind": kind}, float(count)) for kind, count in sorted(status.counters.incidents.items())]
    yield _counter("holdfast_incidents_total", "Incidents, by kind.", kinds)


def _process() -> Iterator[str]:
    """The names that every exporter uses for these."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield _counter("process_cpu_seconds_total", "Processor time used.", [({}, used.ru_utime + used.ru_stime)])
    yield _metric("process_start_time_seconds", "gauge", "Start time of the process.", [({}, _BEGAN_S)])
    if sys.platform == "linux":
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
        resident = pages * resource.getpagesize()
        yield _metric("process_resident_memory_bytes", "gauge", "Memory in use.", [({}, resident)])
        yield _metric("process_open_fds", "gauge", "Open files and sockets.", [({}, len(os.listdir("/proc/self/fd")))])
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    yield _metric("process_max_fds", "gauge", "Limit of open files and sockets.", [({}, most)])


def _gauge(name: str, help_: str, samples: _Samples) -> str:
    return _metric(f"holdfast_{name}", "gauge", help_, samples)


def _counter(name: str, help_: str, samples: _Samples) -> str:
    return _metric(name, "counter", help_, samples)


def _metric(name: str, kind: str, help_: str, samples: _Samples) -> str:
    lines = [f"# HELP {name} {help_}", f"# TYPE {name} {kind}"]
    for labels, value in samples:
        inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        lines.append(f"{name}{{{inside}}} {_number(value)}" if inside else f"{name} {_number(value)}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
