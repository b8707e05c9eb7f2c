"""Large tables over a link: how long a broker is deaf meanwhile, by the CPU time of one turn of its event loop.

    python -m bench.large_tables [--json] [--save] [--only NAME]

Two brokers and a client share one event loop. The client's conditions go to one broker and from there to the other, in
messages bounded by count and bytes, while events flow to a subscriber at the other end. `attack` is 2,000 conditions of
256 filters each: 179 characters that take milliseconds, and more than the budget of a neighbour allows, which ends the
row. At the end the client dies, and its broker drops its table. A turn holds what both brokers and the client do in it.
Each row is kept as it is done.
"""

import asyncio
import gc
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from time import process_time, thread_time
from typing import Any

from bench.command import keep, options, show
from bench.live_bare import greeted
from bench.live_relay import Framed, framed
from bench.report import markdown
from bench.results import load, machine, saved_at
from bench.rounds import say
from holdfast.carriers.connecting import connect
from holdfast.matching import collector
from holdfast.model.messages import TableRefused
from holdfast.net.address import parse_address
from holdfast.net.event_loop import run
from holdfast.net.node import BrokerNode
from holdfast.net.settings import NodeSettings
from holdfast.protocol.settings import ProtocolSettings
from holdfast.protocol.tables import SentTable
from holdfast.wire.codec import decode_frame_untrusted, encode_message
from holdfast.wire.codec import framed as frame_of

TURN_MAX_MS = 50.0
ATTACK = 2_000
_PATIENT = ProtocolSettings(heartbeat_us=1_000_000, lease_us=3_600_000_000, filters_max=2_000_000)
_EVENT_S = 0.02  # between two events


def large(number: int) -> str:
    """179 characters that stand for 256 filters of eight tests each."""
    return " AND ".join(f"(a{at} = {number} OR b{at} = {number})" for at in range(8))


ROWS = {"205,000": (205_000, 1), "1,000,000": (1_000_000, 1), "attack": (ATTACK, 256)}


def _filters(broker: BrokerNode) -> int:
    return broker.driver.machine.gauges()["filters of a neighbour"][0]


async def _broker(name: str) -> BrokerNode:
    broker = BrokerNode(NodeSettings(name, (parse_address("tcp://127.0.0.1:0"),), protocol=_PATIENT))
    await broker.start()
    return broker


class _Turns:
    """The CPU time of each turn of this thread's event loop."""

    def __init__(self) -> None:
        self.longest_s, self.long = 0.0, 0
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        before = thread_time()
        while True:
            await asyncio.sleep(0)
            now = thread_time()
            self.longest_s = max(self.longest_s, now - before)
            self.long += now - before > TURN_MAX_MS / 1e3
            before = now

    def done(self) -> dict[str, float]:
        self._task.cancel()
        return {"longest_turn_ms": 1e3 * self.longest_s, "turns_too_long": self.long}


async def measured(name: str) -> dict[str, Any]:
    count, filters = ROWS[name]
    far, near = await _broker("far"), await _broker("near")
    far.add_peer("near", near.listening[0])
    async with connect(str(near.listening[0])) as publisher, connect(str(far.listening[0])) as reader:
        events = reader.subscribe("kind = 'tick'")
        await reader.flush()
        refusals: list[str] = []

        def on_frame(this: Framed, frame: bytes) -> None:
            refusals.extend(each.reason for each in decode_frame_untrusted(frame) if type(each) is TableRefused)

        desk = await greeted(str(far.listening[0]), "desk", on_frame)
        texts = [large(n) if filters > 1 else f"x = {n}" for n in range(count)]
        frames = [
            framed(frame_of([encode_message(each)]))
            for each in SentTable("subscriptions", 1).change(texts, (), 0)
        ]  # fmt: skip
        gc.collect()
        collector.own_process()
        gc.freeze()  # what the bench has loaded is not the broker's
        used_s, turns, sent = process_time(), _Turns(), 0
        for each in frames:
            desk.transport.write(each)
            await desk.room.wait()
            await asyncio.sleep(0)
        while _filters(near) < (_filters(far) if refusals else count * filters):
            await publisher.publish({"kind": "tick", "n": sent})
            sent += 1
            await asyncio.sleep(_EVENT_S)
        crossed = turns.done()
        say(f"{name}: crossed, longest turn {crossed['longest_turn_ms']:.0f} ms, {sent:,} events meanwhile")
        await publisher.flush()
        got = 0
        while got < sent:
            got += len(await events.batch(timeout=30))
        crossing_s, turns = process_time() - used_s, _Turns()
        desk.transport.close()
        while _filters(far) > 1 or _filters(near) > 1:
            await asyncio.sleep(_EVENT_S)
        dropped = turns.done()
        say(f"{name}: dropped, longest turn {dropped['longest_turn_ms']:.0f} ms")
    for broker in (far, near):
        await broker.stop()
    gc.unfreeze()
    return {
        "name": name,
        "conditions": count,
        "filters": count * filters,
        "messages": len(frames),
        "refused": refusals[0] if refusals else "",
        "events": sent,
        "cpu_s": crossing_s,
        **crossed,
        **{f"dropping_{key}": value for key, value in dropped.items()},
    }


def together(rows: list[dict[str, Any]], before: dict[str, Any] | None) -> dict[str, Any]:
    known = {each["name"]: each for each in (before or {}).get("rows", [])} | {each["name"]: each for each in rows}
    found = [known[name] for name in ROWS if name in known]
    return {
        "benchmark": "large_tables",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(("msgspec", "uvloop", "numba")),
        "rows": found,
        "checks": list(_checks(found)),
    }


def _checks(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        for key, what in (("longest_turn_ms", "crossing"), ("dropping_longest_turn_ms", "dropping")):
            name = f"{row['name']}, {what}: longest turn (ms)"
            yield {"name": name, "target": TURN_MAX_MS, "measured": row[key], "holds": row[key] < TURN_MAX_MS}


def section(found: dict[str, Any]) -> str:
    where = found["machine"]
    head = ["table", "conditions", "filters", "messages", "events meanwhile", "CPU (s)", "longest turn (ms)"]
    head += ["over 50 ms", "dropping (ms)"]
    rows = [
        [
            row["name"],
            *[f"{row[key]:,}" for key in ("conditions", "filters", "messages", "events")],
            *[f"{row[key]:,.0f}" for key in ("cpu_s", "longest_turn_ms", "turns_too_long", "dropping_longest_turn_ms")],
        ]
        for row in found["rows"]
    ]
    return f"""## Large tables

Measured on {found["date"]} with `./run bench large_tables --save`: {where["processor"]}, {where["cores"]} cores,
{where["memory_gib"]} GiB, Python {where["python"]}.

A client's conditions cross two brokers, in messages bounded by count and bytes, while events flow the other way. Both
brokers and their clients share one event loop: a turn is what all of them do in it, in CPU time. `attack` is
{ATTACK:,} conditions of 256 filters each, more than a neighbour's budget allows. Then the client dies, and its broker
drops the table.

{markdown(head, rows, right=set(range(1, 9)))}

{_verdict(found)}
"""


def _verdict(found: dict[str, Any]) -> str:
    said = "".join(f'`{row["name"]}` was answered: "{row["refused"]}".\n' for row in found["rows"] if row["refused"])
    late = [check["name"].rpartition(":")[0] for check in found["checks"] if not check["holds"]]
    if not late:
        return f"{said}No turn takes 50 ms or more."
    return f"{said}The target, no turn of 50 ms or more, does not hold for: {'; '.join(late)}."


def main() -> int:
    words = options("large_tables", __doc__)
    words.add_argument("--only", action="append", choices=list(ROWS), help="leave out the others")
    given = words.parse_args()
    found: dict[str, Any] = together([], None)
    for name in given.only or ROWS:
        row = run(measured(name))
        found = together([row], load(saved_at("large_tables")) if given.save else found)
        if given.save:
            keep(found, section)
    show(given, found, section)
    return 0 if all(check["holds"] for check in found["checks"]) else 1


if __name__ == "__main__":
    sys.exit(main())
