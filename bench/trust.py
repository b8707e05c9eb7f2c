"""What trust costs: signatures beside none in the same mode, and the throttle of a broker per frame.

The publisher, the broker and each subscriber is a process of its own, and all recover losses (bench/reliable_arena.py).
Signed and unsigned take turns, round after round, because the machine is shared and noisy; a share is the median of the
rounds' shares. A judge that knows nothing of our matcher says what was owed (bench/reliable_work.py).

Budgets and rights are measured where they stand: frames with one event each are handed to a broker's session, with the
budget of its connection, with that of its identity as well, and without any, in turns; and to a broker that has a
rights file beside one that has none, with a subscriber for whom each event is checked once more.
"""

import asyncio
import tempfile
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import holdfast
from bench.beside_peers import concluded
from bench.command import options
from bench.reliable_arena import Arena, Shape, Turn
from bench.report import aligned, check_rows, markdown
from bench.results import Check, machine
from bench.rounds import say
from holdfast.model.messages import Publication, Publish
from holdfast.net.address import parse_address
from holdfast.net.node import BrokerNode
from holdfast.net.settings import NodeSettings
from holdfast.net.throttle import Throttle
from holdfast.trust.authority import DevelopmentAuthority
from holdfast.trust.budget import Budgets, BudgetSettings
from holdfast.trust.identity import Principal
from holdfast.trust.settings import TrustSettings
from holdfast.wire.codec import encode_message, framed

LIBRARIES = ("msgspec", "uvloop", "cryptography", "duckdb")
SHAPES = [(Shape("stock", 4, 1), 40_000), (Shape("text", 4, 1), 20_000)]
JUDGED = SHAPES[0][0]
SHARE_MIN = 0.8  # of the throughput without signatures
LIMIT_S = 100.0
FRAMES = 2_000  # of one turn of the throttle: ten turns are within a second's budget, so that nobody is slowed
DELIVERED = 200  # events of one turn of rights: all turns are within what a connection holds
LISTEN = parse_address("tcp://127.0.0.1:0")
RIGHTS = """
[[right]]
who = "anonymous"
publish = "class = 'stock' AND symbol IS NOT NULL OR class = 'stock' AND price < 10"
subscribe = "class = 'stock' AND price < 1000"
"""
CPU = ("publisher", "brokers", "subscribers")
NUMBERS = {2, 3, 4, 5, 6, 7}  # columns of the table


# Signatures --------------------------------------------------------------------------------------


def signatures(rounds: int, folder: Path) -> list[dict[str, Any]]:
    authority = DevelopmentAuthority(folder / "keys", 1)
    authority.add_signer("feed")
    name = {"name": "feed"}
    kinds: dict[str, Mapping[str, Mapping[str, Any]]] = {
        "none": {"pub": name},
        "signed": {"pub": {**name, "sign": str(folder / "keys/feed.sign")}},
        "signed and verified": {
            "pub": {**name, "sign": str(folder / "keys/feed.sign")},
            "sub": {"verify": str(folder / "keys/signers.json")},
        },
    }
    rows: list[dict[str, Any]] = []
    for shape, events in SHAPES:
        arenas = [Arena(shape, "recovery", folder / f"{shape.work}-{kind}", more) for kind, more in kinds.items()]
        turns: list[list[Turn]] = [[] for _ in arenas]
        try:
            for number in range(rounds):
                say(f"{shape.name}: round {number + 1} of {rounds}")
                for arena, of in zip(arenas, turns, strict=True):
                    of.append(arena.turn(events, LIMIT_S))
        finally:
            for arena in arenas:
                arena.stop()
        rows += [_row(shape, events, kind, of, turns[0]) for kind, of in zip(kinds, turns, strict=True)]
    return rows


def _row(shape: Shape, events: int, kind: str, turns: list[Turn], without: list[Turn]) -> dict[str, Any]:
    both = [(one, other) for one, other in zip(turns, without, strict=True) if one.finished and other.finished]
    fine = [each for each in turns if each.finished]
    cpu_us = {who: median(each.cpu_us[who] for each in fine) if fine else None for who in CPU}
    verdict = sum((each.verdict for each in turns[1:]), turns[0].verdict)
    return {
        "work": shape.work,
        "subscribers": shape.subscribers,
        "signatures": kind,
        "events": events,
        "rounds": len(turns),
        "finished": len(fine),
        "events_per_second": median(events / each.took_s for each in fine) if fine else None,
        "share": median(other.took_s / one.took_s for one, other in both) if both else None,
        "cpu_share": median(sum(other.cpu_us.values()) / sum(one.cpu_us.values()) for one, other in both)
        if both
        else None,
        "cpu_us": cpu_us,
        **verdict.as_dict(),
        "problems": sorted({each for turn in turns for each in turn.problems}),
    }


# Budgets and rights ------------------------------------------------------------------------------


async def throttle(rounds: int) -> dict[str, float]:
    """CPU time of a broker per frame of one event that nobody wants, with its budgets and without."""
    node = BrokerNode(NodeSettings("b1", (parse_address("tcp://127.0.0.1:0"),)))
    await node.start()
    found: dict[str, list[float]] = {"without": [], "connection": [], "identity": []}
    try:
        async with holdfast.connect(str(node.listening[0]), name="feed") as client:
            await client.publish({"n": 0})
            await client.flush()
            session = node._sessions["feed"]
            gate, seq = session.throttle, client._machine.last_seq
            assert gate is not None and session.link is not None
            desk, generous = Principal("desk"), Budgets(BudgetSettings())
            generous.enter(desk)
            shared = Throttle(generous.of(desk), session.link, session.wire, node.driver.report)
            for _ in range(rounds):  # without a turn of the loop, in which the client would learn what it has not sent
                for kind, throttled in (("without", None), ("connection", gate), ("identity", shared)):
                    frames = [_frame(seq + at) for at in range(1, FRAMES + 1)]
                    seq += FRAMES
                    session.throttle = throttled
                    began_s = time.process_time()
                    for frame in frames:
                        session.on_frame(frame)
                    found[kind].append(1e6 * (time.process_time() - began_s) / FRAMES)
    finally:
        node.crash()
    return {
        "frame_us": median(found["without"]),
        "connection_us": _more(found["connection"], found["without"]),
        "identity_us": _more(found["identity"], found["without"]),
    }


def _more(one: list[float], other: list[float]) -> float:
    return median(with_it - without for with_it, without in zip(one, other, strict=True))


async def rights(rounds: int, folder: Path) -> dict[str, float]:
    """CPU time of a broker per frame of one event that one client gets, with rights in force and without."""
    file = folder / "rights.toml"
    file.write_text(RIGHTS)
    places = {"without": TrustSettings(), "with": TrustSettings(rights=file)}
    nodes = {kind: BrokerNode(NodeSettings("b1", (LISTEN,), trust=trust)) for kind, trust in places.items()}
    found: dict[str, list[float]] = {kind: [] for kind in nodes}
    async with AsyncExitStack() as stack:
        sides = {}
        for kind, node in nodes.items():
            await node.start()
            stack.callback(node.crash)
            address = str(node.listening[0])
            feed, desk = [
                await stack.enter_async_context(holdfast.connect(address, name=f"anonymous.{name}"))
                for name in ("feed", "desk")
            ]
            wanted = desk.subscribe("class = 'stock' AND price < 100")
            await desk.flush()
            await feed.publish({"class": "stock", "price": 1.0})
            await wanted.next(timeout=20)
            sides[kind] = node._sessions["anonymous.feed"], [feed._machine.last_seq]
        for _ in range(rounds):  # without a turn of the loop, as above
            for kind, (session, last) in sides.items():
                frames = [_frame(last[0] + at, "anonymous.feed") for at in range(1, DELIVERED + 1)]
                last[0] += DELIVERED
                session.throttle = None
                began_s = time.process_time()
                for frame in frames:
                    session.on_frame(frame)
                found[kind].append(1e6 * (time.process_time() - began_s) / DELIVERED)
    return {"frame_us": median(found["without"]), "rights_us": _more(found["with"], found["without"])}


def _frame(seq: int, source: str = "feed") -> bytes:
    event: dict[str, Any] = {"class": "stock", "symbol": "IBM", "price": 99.5, "n": seq}
    return framed([encode_message(Publish(Publication(source, seq, seq, None, event)))])


# Results -----------------------------------------------------------------------------------------


def checks(rows: list[dict[str, Any]]) -> list[Check]:
    found = []
    for row in rows:
        if row["signatures"] == "signed and verified" and row["share"] is not None:
            name = f"signatures: share of the throughput without, {row['work']}, {row['events']:,} events"
            found.append(Check(name, "at least", SHARE_MIN, "x", row["share"]))
        wrong = row["missing"] + row["doubled"] + row["unowed"] + row["rounds"] - row["finished"]
        name = f"{row['work']}, {row['signatures']}: deliveries wrong, and rounds not finished"
        found.append(Check(name, "less than", 1, "", wrong))
    return found


def table(data: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    head = ["subscribers", "signatures", "events/s", "share", "share of CPU", *[f"µs/event, {who}" for who in CPU]]
    return head, [
        [
            f"{row['work']}, {row['subscribers']}",
            row["signatures"],
            *[format(row[each] or 0.0, form) for each, form in _FORMS.items()],
            *[format(row["cpu_us"][who] or 0.0, ".1f") for who in CPU],
        ]
        for row in data["rows"]
    ]


_FORMS = {"events_per_second": ",.0f", "share": ".2f", "cpu_share": ".2f"}


def shown(data: dict[str, Any]) -> str:
    return "\n\n".join([aligned(*table(data), right=NUMBERS), _costs(data), aligned(*check_rows(data), right={1, 2})])


def _costs(data: dict[str, Any]) -> str:
    budgets, rights = data["throttle"], data["rights"]
    return (
        f"A frame of one event that nobody wants takes a broker {budgets['frame_us']:.1f} µs of CPU. The budget of its "
        f"connection adds {budgets['connection_us']:.2f} µs, with that of its identity it is "
        f"{budgets['identity_us']:.2f} µs, and as much for a batch of any size. An event that one client gets takes "
        f"{rights['frame_us']:.1f} µs; checking it against the rights of both clients adds "
        f"{rights['rights_us']:.2f} µs."
    )


def section(data: dict[str, Any]) -> str:
    about = data["machine"]
    return "\n\n".join(
        [
            "## Trust",
            f"`./run bench trust --save`, {data['date']}, {about['processor']}, Python {about['python']}. A publisher "
            "that signs (Ed25519) and four subscribers that verify, beside the same without signatures. All recover "
            f"losses; medians of {data['rounds']} rounds in which each had its turn.",
            markdown(*table(data), right=NUMBERS),
            _costs(data),
            markdown(*check_rows(data), right={1, 2}),
        ]
    )


def main() -> int:
    words = options("trust", __doc__)
    words.add_argument("--rounds", type=int, default=5)
    given = words.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        rows = signatures(given.rounds, Path(folder))
        of_rights = asyncio.run(rights(4 * given.rounds, Path(folder)))
    data = {
        "benchmark": "trust",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(LIBRARIES),
        "rounds": given.rounds,
        "rows": rows,
        "throttle": asyncio.run(throttle(2 * given.rounds)),
        "rights": of_rights,
        "checks": [each.as_dict() for each in checks(rows)],
        "left_out": [],
    }
    return concluded(given, data, shown, section)


if __name__ == "__main__":
    raise SystemExit(main())
