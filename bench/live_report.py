"""The results of bench/live.py as text and as a section of docs/benchmarks.md, from their JSON form alone."""

from typing import Any

from bench.report import aligned, check_rows, markdown

Data = dict[str, Any]

_RIGHT = set(range(1, 9))


def rows(data: Data) -> tuple[list[str], list[list[str]]]:
    head = ["system", "subscribers", "subscriptions", "deliveries/s", "slowest", "fastest", "holdfast is"]
    head += ["p50 delay", "p99 delay"]
    return head, [
        [
            row["system"],
            str(row["subscribers"]),
            f"{row['subscriptions']:,}",
            *[f"{row[name]:,.0f}" for name in ("deliveries_per_second", "slowest", "fastest")],
            "" if row["holdfast_is"] is None else f"{row['holdfast_is']:,.2f}x",
            *["" if row[name] is None else f"{row[name] / 1000:.2f} ms" for name in ("p50_us", "p99_us")],
        ]
        for row in data["rows"]
    ]


def overload_lines(data: Data) -> list[str]:
    return [
        f"{name}: {each['published']:,} published at {each['published_per_second']:,.0f}/s, "
        f"{each['delivered']:,} delivered, {each['dropped_by_broker']:,} dropped by the broker and "
        f"{each['dropped_by_client']:,} by the client and counted, {each['lost_without_a_trace']:,} lost without a "
        f"trace; the latest came {each['delay_max_ms']:,.0f} ms after it was published"
        for name, each in data["overload"].items()
    ]


def realistic_lines(data: Data) -> list[str]:
    return [
        f"{row['conditions']:,} condition{'s' if row['conditions'] > 1 else ''}, {row['subscribers']} subscribers, "
        f"{row['deliveries_per_event']:,.0f} deliveries an event: {row['events_per_cpu_second']:,.0f} events in a "
        "second of the broker's CPU time"
        for row in data.get("realistic", {}).get("rows", [])
    ]


def plain(data: Data) -> str:
    head, found = rows(data)
    parts = [
        f"Live, median of {data['rounds']} interleaved rounds; delays at {data['delay_rate']:,} events/s",
        aligned(head, found, right=_RIGHT),
        "overload, " + "\noverload, ".join(overload_lines(data)),
        "\n".join(realistic_lines(data)),
        aligned(*check_rows(data), right={1, 2}),
        *[f"left out: {each}" for each in data["left_out"]],
    ]
    return "\n\n".join(parts)


def section(data: Data) -> str:
    made = data["machine"]
    versions = [f"{name} {version}" for name, version in {**made["libraries"], **data["servers"]}.items()]
    where = f"{made['processor']}, {made['cores']} cores, {made['memory_gib']} GiB, {made['system']}"
    head, found = rows(data)
    return f"""## The live network

Measured on {data["date"]} with `./run bench live --save`: {where}, Python {made["python"]},
{", ".join(versions)}.
Contestants took turns; each number is the median of {data["rounds"]} rounds, a ratio the median of the rounds' ratios.
The machine is shared and has {made["cores"]} cores for three to six processes: a rate is what all of them together
can do. Between quiet rounds it varies by 1.4, so a ratio below 1.5 is no result.

One publisher, one broker, one or four subscribers, TCP on the loopback, events of ten attributes; one subscription
matches every event, all others none. Delays are measured at {data["delay_rate"]:,} events a second.

{_EXPLANATION}

{markdown(head, found, right=_RIGHT)}

Under overload nothing is lost silently. A subscriber that reads 10,000 events a second at most, behind a broker that
may keep a megabyte for it, was sent events as fast as they could be published:

{chr(10).join(f"- {line}." for line in overload_lines(data))}

{_realistic(data)}The targets, and whether they hold:

{markdown(*check_rows(data), right={1, 2})}
"""


def _realistic(data: Data) -> str:
    lines = [f"- {line}." for line in realistic_lines(data)]
    measured = (
        [f"Measured on {data['realistic']['date']} with `./run python -m bench.live_realistic --save`."]
        if lines
        else []
    )
    return "\n".join([*_REALISTIC, *lines, "", *measured, "", ""]) if lines else ""


_REALISTIC = [
    "With conditions as people have them, each matching about 1 % of the events, what counts is the broker alone: its",
    "subscribers only count what comes (`bench/live_realistic.py`). Beside it, one condition that matches every event:",
    "",
]
_EXPLANATION = """\
- `holdfast` is `holdfast broker --push-back` with `holdfast.connect` at both ends, on uvloop. Everybody checks: the
  publisher that the event survives the wire, the broker that the bytes are messages, the subscriber that the event
  is wanted and new.
- `holdfast-many` is the same with `publish_many` of 1,000 events at a time instead of `publish` of each.
- `holdfast-bare` is the same broker with ready-made frames instead of our publisher and a subscriber that only decodes.
- `raw` is the limit: a relay without subscriptions, checks or accounts that decodes frames of 64 events, looks at
  two attributes and sends on, with asyncio's own loop; `raw-uvloop` is the same on uvloop.
- `nats` is NATS core with nats-py, on uvloop. It filters by subject only.
- `activemq` filters by selectors, with stomp.py, the usual Python client; `activemq-bare` is the same server with as
  little code as STOMP needs at both ends, on uvloop.
- `rabbitmq` filters by a headers exchange, with pika; it can only compare for equality."""
