"""Runs for the audit's tests: simulated ones of several kinds, hand-written ones, and ways to break a trace."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holdfast.books.rows import Row, incident_row
from holdfast.books.trace import TraceWriter
from holdfast.model.messages import Publication
from holdfast.network.load import parse_text
from holdfast.network.provenance import about_run
from holdfast.network.schema import Network
from holdfast.protocol.effects import Incident
from holdfast.sim.simulator import Simulation

CHURN = """
name = "churn"
seed = 5
duration_s = 8

[topology]
kind = "line"
brokers = ["b1", "b2", "b3"]

[links]
delay_ms = 20
jitter_ms = 15
reorder = 0.2
loss = 0.05

[[client]]
id = "p"
broker = "b1"
publish = [
    { every_s = 0.05, at_s = 0.5, attributes = { n = 1, kind = "tick" } },
    { every_s = 0.1, at_s = 0.5, attributes = { n = 2 }, lifetime_s = 0.045 },
]

[[client]]
id = "q"
broker = "b3"
publish = [{ every_s = 0.2, attributes = { n = 7, "odd name" = true, tags = ["a", "b"], sizes = [1, 2.5] } }]
subscriptions = ["n < 5"]

[[client]]
id = "s"
broker = "b3"
subscriptions = [
    { condition = "n = 1", from_s = 1, until_s = 4 },
    { condition = "'b' = ANY(tags) AND 2 < ANY(sizes)", from_s = 2, until_s = 2.5 },
    { condition = "kind LIKE 't%'", from_s = 3, until_s = 5 },
    "n > 1",
]

[[fault]]
at_s = 3
kind = "crash"
broker = "b2"
for_s = 0.6

[[fault]]
at_s = 5
kind = "subscribe"
client = "q"
condition = "\\"odd name\\" = TRUE"
id = "again"

[[fault]]
at_s = 5.5
kind = "unsubscribe"
client = "q"
id = "again"

[[fault]]
at_s = 6
kind = "subscribe"
client = "q"
condition = "n = 1"
id = "again"
"""

HONEST = """
name = "honest"
duration_s = 4

[topology]
kind = "line"
brokers = ["b1", "b2"]

[links]
delay_ms = 5

[[client]]
id = "p"
broker = "b1"
publish = [{ every_s = 0.1, at_s = 1.5, attributes = { n = 1 } }]

[[client]]
id = "s"
broker = "b2"
subscriptions = ["n = 1"]

[[client]]
id = "t"
broker = "b1"
subscriptions = ["n > 0", "n < 2"]
"""

LIVE = """
name = "live"
seed = 3
duration_s = 1.5
topology = { kind = "line", brokers = ["b1", "b2"] }
links = { delay_ms = 4, loss = 0.2 }
transport = { kind = "tcp" }

[[client]]
id = "p"
broker = "b1"
publish = [{ every_s = 0.02, at_s = 0.3, attributes = { n = 1 }, lifetime_s = 30 }]

[[client]]
id = "s"
broker = "b2"
subscriptions = [{ condition = "n = 1", until_s = 1.2 }, { condition = "n > 0", from_s = 0.6 }]
"""


CAREFUL = """
name = "careful"
seed = 4
duration_s = 3
topology = { kind = "line", brokers = ["b1", "b2", "b3"] }
links = { delay_ms = 5, jitter_ms = 5, loss = 0.15 }
reliability = { recovery = "end-to-end", order = "strict" }

[[client]]
id = "p"
broker = "b1"
publish = [{ every_s = 0.05, at_s = 0.3, until_s = 2.5, attributes = { n = 1 } }]

[[client]]
id = "s"
broker = "b3"
subscriptions = ["n = 1"]

[[client]]
id = "t"
broker = "b2"
subscriptions = [{ condition = "n > 0", from_s = 0.6, until_s = 2 }]
"""


def simulate(network: Network | str, folder: Path) -> dict[str, Any]:
    """What `holdfast sim --json` says of a run, whose trace is left in the folder."""
    known = parse_text(network) if isinstance(network, str) else network
    return Simulation(known, trace=TraceWriter(folder, about_run(known, "sim", known.seed))).run().as_json()


def live(network: str, folder: Path) -> dict[str, Any]:
    """What `holdfast up --json` says of a run over real sockets."""
    file = folder.with_suffix(".toml")
    file.write_text(network)
    command = ["up", str(file), "--in-process", "--json", "--out", str(folder)]
    program = [sys.executable, "-c", "from holdfast.cli import main; main()", *command]
    done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=120)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


Event = tuple[str, int, int, dict[str, Any]]  # source, seq, time, attributes
Wish = tuple[str, str, int, int | None]  # subscriber, condition, from, until
# Subscriber, source, seq, time; via, if it is not the original way; for how long it was held back, if it was.
Arrival = tuple[str, str, int, int] | tuple[str, str, int, int, str] | tuple[str, str, int, int, str, int]


def written(
    folder: Path,
    events: Sequence[Event] = (),
    wishes: Sequence[Wish] = (),
    arrivals: Sequence[Arrival] = (),
    incidents: Sequence[tuple[str, int, Incident]] = (),
    rows: Sequence[Row] = (),
    **about: Any,
) -> Path:
    """A trace by hand."""
    trace = TraceWriter(folder, {"name": folder.name, **about})
    for source, seq, time_us, attributes in events:
        trace.publication(Publication(source, seq, time_us, None, attributes), 10)
    for number, wish in enumerate(wishes):
        trace.add("subscriptions", wish[0], f"s{number}", *wish[1:])
    for arrival in arrivals:
        trace.add("deliveries", *arrival, *("original", 0)[len(arrival) - 4 :])
    for row in (*(incident_row(*incident) for incident in incidents), *rows):
        trace.add(*row)
    trace.close()
    return folder


# Written by hand: each run holds several questions, told apart by their sources or subscribers ------------------------

ORDERS = {f"p{number}": order for number, order in enumerate([*permutations((2, 3, 5, 9)), (9, 7, 5, 3, 1), (4,)])}
WAYS = ("original", "repair", "gossip", "repair", "original")


def orders(folder: Path) -> Path:
    """Every order of four events, a reversed one, three events of one moment, and events that came several ways."""
    arrivals: list[Arrival] = [
        ("s", source, seq, 1_000 + place) for source, order in ORDERS.items() for place, seq in enumerate(order)
    ]
    arrivals += [("s", "moment", seq, 500) for seq in (1, 3, 2)]
    arrivals += [("s", "ways", seq, 1_000 * seq + 10**seq, way) for seq, way in enumerate(WAYS, 1)]
    arrivals.append(("s", "ways", 1, 900_000, "retransmission"))  # a duplicate: it recovers nothing
    events = [(row[1], row[2], 0, {"n": 1}) for row in arrivals if row[1] != "ways"]
    events += [("ways", seq, 1_000 * seq, {"n": 1}) for seq in range(1, 7)]
    return written(folder, events, [("s", "n = 1", 0, None)], arrivals)


TYPED = {"numbers": "x > 0", "texts": "x LIKE 'o%'", "yes": "x = TRUE", "none": "x IS NULL AND y < 9", "y": "y >= 5"}
TYPED["big"] = "x > 9223372036854775000"
NAMED = {"case": "Price = 1 AND price = 9", "source": "source = 'x'", "dotted": '"a.b" = 5', "run": "run = TRUE"}
NAMED |= {"tick": '"tick`s" = 3', "nobody": "source = 'p'"}


def names_and_types(folder: Path) -> Path:
    """An attribute of all types, and names that Spark takes for something else."""
    values = [1, "one", 2.5, None, True, 2**63, -4]
    events = [("p", seq, 0, {"x": value, "y": seq}) for seq, value in enumerate(values)]
    odd = {"Price": 1, "price": 9, "source": "x", "a.b": 5, "run": True, "tick`s": 3}
    wishes = [(name, condition, 0, None) for name, condition in (TYPED | NAMED).items()]
    return written(folder, [*events, ("p", 9, 0, {**odd, "x": False})], wishes)


def lives(folder: Path) -> Path:
    """Events around the ends of a subscription's life, and events that are missing without any cause in the trace."""
    around = [("edges", seq, time_us, {"n": 1}) for seq, time_us in enumerate((9, 10, 15, 20, 21))]
    arrivals: list[Arrival] = [("s", "edges", seq, 22) for seq in range(5)]
    # Of eight events, one a second, only the last four arrive; one subscriber had been there all the time.
    events = [("p", seq, seq * 1_000_000, {"n": 2}) for seq in range(1, 9)]
    arrivals += [(name, "p", seq, seq * 1_000_000 + 9) for seq in (5, 6, 7, 8) for name in ("old", "young")]
    wishes: list[Wish] = [("s", "n = 1", 10, 20), ("old", "n = 2", 0, None), ("young", "n = 2", 3_999_995, None)]
    return written(folder, [*around, *events], wishes, arrivals)


def replaced(folder: Path) -> Path:
    """A broker dies and is replaced, and its subscriber holds back what overtook an event that is repaired.

    Ten events, two a second. The fourth, of the moment of the failure, is repaired after two and a half seconds, the
    fifth waits for the replica, the last one never comes.
    """
    events = [("p", seq, seq * 500_000, {"n": 1}) for seq in range(1, 11)]
    arrivals: list[Arrival] = [("s", "p", seq, seq * 500_000 + 10_000) for seq in (1, 2, 3)]
    arrivals.append(("s", "p", 4, 4_500_000, "repair"))
    arrivals.append(("s", "p", 5, 4_500_000, "replica", 1_400_000))
    arrivals += [("s", "p", seq, 4_500_000, "original", 4_490_000 - seq * 500_000) for seq in (6, 7, 8)]
    arrivals.append(("s", "p", 9, 4_510_000))
    incidents = [
        ("b2", 2_000_000, Incident("crash")),
        ("b3", 2_200_000, Incident("suspected", "b2")),
        ("b1", 2_100_000, Incident("suspected", "b2")),
        ("b2+1", 2_400_000, Incident("replica_started", "b2")),
        ("b1", 2_450_000, Incident("failover_requested", "b2", other="b2+1", copying="ordered")),
        ("b3", 2_500_000, Incident("failover_requested", "b2", other="b2+1", copying="ordered")),
        ("b2+1", 3_000_000, Incident("replica_ready", "b2")),
        ("b1", 3_100_000, Incident("replaced_by", "b2", other="b2+1")),
        ("b3", 3_200_000, Incident("replaced_by", "b2", other="b2+1")),
    ]
    rows = [
        ("links", "b1", "b2", 0, 1_000_000, 10, 0, 1),
        ("links", "b1", "b2", 1_000_000, 2_000_000, 10, 900, 1),
        ("links", "b1", "b2+1", 3_000_000, 4_000_000, 5, 0, 0),
        ("links", "b2+1", "b1", 3_000_000, 4_000_000, 7, 0, 0),
        ("links", "b2", "b3", 0, 1_000_000, 40, 0, 0),
        ("samples", "b1", 1_000_000, "queue bytes", 3.0, None),
    ]
    return written(folder, events, [("s", "n = 1", 0, None)], arrivals, incidents, rows, driver="live")


# Breaking a trace --------------------------------------------------------------------------------------------------


def rewrite(folder: Path, table: str, change: Callable[[pa.Table], pa.Table]) -> None:
    path = folder / table / "part-00000.parquet"
    pq.write_table(change(pq.read_table(path)), path)


def broken_copy(folder: Path, name: str) -> Path:
    """A copy of a run that breaks one promise; it passes for a run of another seed, or P8 would be broken too."""
    table, change, promise = BROKEN[name]
    copy = Path(shutil.copytree(folder, folder.parent / name))
    rewrite(copy, table, change)
    rewrite(
        copy,
        "run",
        lambda run: run.set_column(run.column_names.index("seed"), "seed", pa.array([100 + int(promise[1])])),
    )
    return copy


STORED = """
name = "stored"
seed = 3
duration_s = 20

[topology]
kind = "line"
brokers = ["b1", "b2", "b3"]

[links]
delay_ms = 5
loss = 0.1

[reliability]
hops = "retransmission"

[[client]]
id = "p"
broker = "b1"
publish = [
    { every_s = 0.05, at_s = 1, until_s = 3, attributes = { n = 1 } },
    { every_s = 0.1, at_s = 1, until_s = 3, attributes = { n = 2 }, lifetime_s = 0.1 },
]

[[client]]
id = "s"
broker = "b3"
subscriptions = ["n > 0"]

[[fault]]
at_s = 1.5
kind = "crash"
broker = "b2"
for_s = 1
"""


def without_an_acknowledged_one(folder: Path, name: str) -> Path:
    """A copy in which the last event that was stored and has no lifetime never came."""
    copy = Path(shutil.copytree(folder, folder.parent / name))
    publications = pq.read_table(copy / "publications" / "part-00000.parquet").to_pylist()
    last = max(row["seq"] for row in publications if row["lifetime_us"] is None)
    rewrite(copy, "deliveries", lambda table: table.filter(pc.not_equal(table["seq"], last)))
    rewrite(
        copy, "run", lambda run: run.set_column(run.column_names.index("seed"), "seed", pa.array([105], pa.int64()))
    )
    return copy


def duplicate(deliveries: pa.Table) -> pa.Table:
    return pa.concat_tables([deliveries, deliveries.slice(3, 1)])


def foreign(deliveries: pa.Table) -> pa.Table:
    row = {**deliveries.slice(5, 1).to_pylist()[0], "subscriber": "q"}
    return pa.concat_tables([deliveries, pa.Table.from_pylist([row], deliveries.schema)])


def out_of_order(deliveries: pa.Table) -> pa.Table:
    """The last but one of the events that one subscriber got comes after the last, after twenty in order."""
    rows = deliveries.to_pylist()
    one, other = [row for row in rows if row["subscriber"] == "s"][-2:]
    one["time_us"] = other["time_us"] + 1
    return pa.Table.from_pylist(rows, deliveries.schema)


def missing(deliveries: pa.Table) -> pa.Table:
    return pa.concat_tables([deliveries.slice(0, 7), deliveries.slice(8)])


def over_limit(samples: pa.Table) -> pa.Table:
    rows = [("b1", 1, "cache", 5.0, 10.0), ("b1", 2, "cache", 11.0, 10.0), ("b2", 1, "cache", 99.0, None)]
    columns = zip(*rows, strict=True)
    more = pa.Table.from_arrays([pa.array(column) for column in columns], schema=samples.schema)
    return pa.concat_tables([samples, more])


BROKEN: dict[str, tuple[str, Callable[[pa.Table], pa.Table], str]] = {
    "duplicate": ("deliveries", duplicate, "P2"),
    "foreign": ("deliveries", foreign, "P1"),
    "out-of-order": ("deliveries", out_of_order, "P3"),
    "missing": ("deliveries", missing, "P4"),
    "over-limit": ("samples", over_limit, "P7"),
}
