"""The results of bench/reliable.py as text and as a section of docs/benchmarks.md, from their JSON form alone."""

from typing import Any

from bench.report import aligned, check_rows, markdown

Data = dict[str, Any]

_CPU = ("publisher", "brokers", "subscribers")


def _shape(row: Data) -> str:
    return f"{row['work']}, {row['subscribers']} at {row['brokers']}"


def _fate(row: Data) -> str:
    """Whether all that was owed came, and if not, what became of it."""
    if not row["rounds"]:
        return "skipped: " + "; ".join(row["skipped"])
    kinds = {"missing": "missing", "doubled": "twice", "swapped": "after a later one", "unowed": "not owed"}
    wrong = [f"{row[name]:,} {word}" for name, word in kinds.items() if row[name]]
    found = [f"of {row['owed']:,}: {', '.join(wrong)}" if wrong else f"all {row['owed']:,}"]
    if row["finished"] < row["rounds"]:
        found.append(f"{row['rounds'] - row['finished']} of {row['rounds']} rounds not finished")
    found += row["problems"] + [f"losses(): {number:,} {reason}" for reason, number in row["named"].items()]
    return "; ".join(found)


def _number(value: float | None, form: str = ",.0f") -> str:
    return "" if value is None else format(value, form)


def _cpu(row: Data) -> list[str]:
    return [_number(row["cpu_us"].get(who), ".1f") for who in _CPU]


def burst_rows(data: Data) -> tuple[list[str], list[list[str]]]:
    head = ["subscribers at brokers", "mode", "events", "rounds", "events/s", "share"]
    head += [f"µs/event, {who}" for who in _CPU]
    return [*head, "deliveries"], [
        [
            _shape(row),
            row["mode"],
            f"{row['events']:,}",
            str(row["rounds"]),
            _number(row["events_per_second"]),
            _number(row["share"], ".2f"),
            *_cpu(row),
            _fate(row),
        ]
        for row in data["rows"]
        if not row["steady"]
    ]


def steady_rows(data: Data) -> tuple[list[str], list[list[str]]]:
    head = ["subscribers at brokers", "mode", "p50", "p99", *[f"µs/event, {who}" for who in _CPU], "deliveries"]
    return head, [
        [_shape(row), row["mode"], *[_number(row[each], ".2f") + " ms" * (row[each] is not None) for each in _DELAYS]]
        + [*_cpu(row), _fate(row)]
        for row in data["rows"]
        if row["steady"]
    ]


_DELAYS = ("p50_ms", "p99_ms")


def scene_rows(data: Data) -> tuple[list[str], list[list[str]]]:
    head = ["system", "acknowledged", "lost", "twice", "after a later one", "seconds", "remarks"]
    return head, [
        [
            row["system"],
            f"{row['acknowledged']:,}",
            *[f"{row[name]:,}" for name in ("missing", "doubled", "swapped")],
            f"{row['took_s']:.1f}",
            "; ".join(
                [row["problem"]] * bool(row["problem"])
                + [f"losses(): {number:,} {reason}" for reason, number in row["named"].items()]
            ),
        ]
        for row in data["scenes"]
    ]


def plain(data: Data) -> str:
    tables = {
        "Bursts, medians of rounds in turns; a share is that of best effort's rate in the same round": (
            burst_rows(data),
            {2, 3, 4, 5, 6, 7, 8},
        ),
        f"A steady {data['steady_rate']:,} events/s": (steady_rows(data), {2, 3, 4, 5, 6}),
        f"A burst of {data['scene_events']:,} events to four subscribers, the server killed and started again": (
            scene_rows(data),
            {1, 2, 3, 4, 5},
        ),
        "Targets": (check_rows(data), {1, 2}),
    }
    parts = [f"{title}\n\n{aligned(*table, right=right)}" for title, (table, right) in tables.items() if table[1]]
    return "\n\n".join(parts + [f"left out: {each}" for each in data["left_out"]])


def section(data: Data) -> str:
    made = data["machine"]
    versions = [f"{name} {version}" for name, version in {**made["libraries"], **data["servers"]}.items()]
    where = f"{made['processor']}, {made['cores']} cores, {made['memory_gib']} GiB, {made['system']}"
    return f"""## Reliable beside best effort

Measured on {data["date"]} with `./run bench reliable --save`: {where}, Python {made["python"]},
{", ".join(versions)}.

{_MODES}

Bursts, as fast as they can be published; the time runs from the first event published to the last delivery owed:

{markdown(*burst_rows(data), right={2, 3, 4, 5, 6, 7, 8})}

A steady {data["steady_rate"]:,} events a second; a delay is that from before `publish` until the application reads it:

{markdown(*steady_rows(data), right={2, 3, 4, 5, 6})}

### When the server is killed

A burst of {data["scene_events"]:,} events to four subscribers; halfway through, the server is killed with `kill -9` and
started again a second later on what it had stored. Lost is what was acknowledged to the publisher and never came to a
subscriber; the numbers are those of all four together.

{markdown(*scene_rows(data), right={1, 2, 3, 4, 5})}

{_PEERS}

### Targets

{markdown(*check_rows(data), right={1, 2})}
"""


_MODES = """\
One publisher, one broker or three in a row, one or four subscribers, each a process of its own, TCP on the loopback.

- `stock`: each subscriber has 250 conditions that compare, and of 1,000 of them about ten want an event. `text`: four
  subscribers have 150 conditions each with LIKE, OR, NOT and NULL, and of the 600 about one wants an event.
- `recovery` is `recovery=True`; `fifo` and `strict` are that with `order=`; `best effort` is neither.
- The brokers of all modes push back, so best effort, too, delivers everything and all do the same work. A share is
  the rate beside that of best effort in the same round; a row is the median of its rounds, taken in turns.
- A delivery is one event for one condition. What is owed says DuckDB. Two cores carry three to eight processes, so a
  rate is what all of them together can do; processor time is that of all processes of a kind together.
- A turn is waited for 20 s and another second for each 2,500 events, and counts with what came by then; a mode that
  did not finish a burst is not given a larger one."""

_PEERS = """\
All have one subject or routing key, which every subscriber wants; none but Holdfast could filter by content. Each
publisher keeps up to 512 events unacknowledged and sends these again over the next connection.

- `holdfast, strict`: clients with `recovery=True, order="strict"` at one broker that stores nothing. The publisher
  stays; acknowledged means that `flush` has returned.
- `holdfast, stored`: durable clients at one broker with `--hops retransmission --store`.
- `rabbitmq`: a durable queue for each subscriber, persistent messages, publisher confirms, consumer acknowledgements.
- `jetstream`: a stream in files, with message ids so that the server knows repeats, and a durable pull consumer for
  each subscriber, with acknowledgements.
- `mosquitto`: QoS 1, sessions that outlive their connection, persistence on and saved every second, where the default
  is every half hour; it acknowledges what it has not saved yet."""
