"""A network file that uses nearly every table, for tests that change one thing, and a short way to its problems."""

from collections.abc import Mapping

import pytest

from holdfast.network.load import parse_text
from holdfast.network.problems import FileProblem, NetworkError

FULL = """\
name = "full"
seed = 3
duration_s = 20
routing = "destinations"

[topology]
kind = "listed"
brokers = ["a", "b", "c", "d"]
links = [["a", "b"], ["b", "c"], ["c", "a"]]

[brokers]
service_ms = [0.1, 0.3]
service = "exponential"
queue = 500

[[broker]]
id = "d"
mtbf_s = 100
mttr_s = 5
listen = "127.0.0.1:7004"

[links]
delay_ms = [5, 10]
jitter_ms = 2
loss = 0.02
burst = { to_bad = 0.01, to_good = 0.3, loss = 0.5 }
bytes_per_s = 1_000_000
duplicate = 0.01
reorder = 0.01

[[link]]
between = ["c", "d"]
availability = 0.99
cycle_s = 1000

[clients]
per_broker = 2
publishers = 3
subscribers = "others"

[[client]]
id = "desk"
broker = "a"
subscriptions = ["p1 = TRUE", { condition = "x > 3", id = "late", from_s = 5, until_s = 9 }]
publish = [
    { at_s = 2, attributes = { x = 5, home = { team = "Yankees" } }, lifetime_s = 1 },
    { every_s = 4, attributes = { x = 1 }, until_s = 15 },
]

[workload]
kind = "patterns"
patterns = 10
per_event = 2
rate_per_s = 20
payload_bytes = 100

[reliability]
hops = "basic"

[protocol]
heartbeat_s = 0.5

[transport]
kind = "tcp"

[[fault]]
at_s = 4
kind = "crash"
broker = "b"
for_s = 2

[[fault]]
at_s = 6
kind = "partition"
brokers = ["a", "b"]
for_s = 1

[[fault]]
at_s = 7
kind = "link-replace"
link = ["c", "d"]

[[fault]]
at_s = 8
kind = "client-attach"
client = "c1"
broker = "d"

[[fault]]
at_s = 9
kind = "subscribe"
client = "c1"
condition = "p2 = TRUE"
"""

TREE = {"topology": {"kind": "tree", "brokers": 10}}


def problems_of(source: str | Mapping[str, object]) -> tuple[FileProblem, ...]:
    with pytest.raises(NetworkError) as caught:
        parse_text(source)
    return caught.value.problems


def only_problem(source: str | Mapping[str, object]) -> FileProblem:
    (problem,) = problems_of(source)
    return problem
