"""Lists in events: through brokers and back, into a trace and out of it, judged by what Python finds in them."""

from pathlib import Path

from holdfast import parse
from holdfast.books.runs import Run
from holdfast.books.trace import TraceWriter
from holdfast.model.messages import Publication
from tests.net.harness import lab, live, settled

EVENTS: list[dict[str, object]] = [
    {"n": 0, "tags": ["a", "b"], "sizes": [1, 2.5]},
    {"n": 1, "tags": []},
    {"n": 2, "tags": [None, "b"], "sizes": [2**64 - 1]},
    {"n": 3, "tags": "b"},
    {"n": 4, "sizes": [7]},
    {"n": 5, "tags": [True], "sizes": []},
]


@live
async def test_a_subscriber_gets_the_lists_that_hold_what_it_looks_for() -> None:
    async with lab() as net:
        first, second = await net.pair()
        publisher, subscriber = await net.client(first), await net.client(second, recovery=True)
        wanted = subscriber.subscribe("'b' = ANY(tags) OR 5 < ALL(sizes) AND CARDINALITY(sizes) > 0")
        await settled(subscriber, publisher)
        await publisher.publish_many(EVENTS)
        got = [await wanted.next(timeout=10) for _ in range(3)]
    assert [each.event for each in got] == [EVENTS[0], EVENTS[2], EVENTS[4]]


def test_a_trace_keeps_lists_as_they_are(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "run", {"name": "lists"}) as trace:
        for seq, event in enumerate(EVENTS, 1):
            trace.publication(Publication("p", seq, 0, None, event), 1)  # type: ignore[arg-type]
        trace.close()
    found: dict[int, dict[str, object]] = {}
    for rows, table in Run(tmp_path / "run").events():
        for row, event in zip(rows.to_pylist(), table.to_pylist(), strict=True):
            found[row] = {name: value for name, value in event.items() if value is not None}
    assert [found[row] for row in range(len(EVENTS))] == EVENTS
    for text in ("'b' = ANY(tags)", "5 < ALL(sizes)", "'b' <> ALL(tags)", "tags IS NULL"):
        asked = parse(text)
        assert [asked.matches(found[row]) for row in range(len(EVENTS))] == [asked.matches(each) for each in EVENTS]
