"""Streams, lamps and questions, from events told by hand."""

from typing import Any

import pytest

from holdfast.console.asking import RoutingGraph, about_condition, explained, goes_to
from holdfast.console.board import Board
from holdfast.console.chart_points import ChartPoints
from holdfast.console.lamps import Promised, lamps
from holdfast.console.stream_view import StreamView
from holdfast.console.why_not import why_not
from holdfast.language.parser import parse
from holdfast.model.errors import HoldfastError
from holdfast.model.messages import Publication
from holdfast.protocol.effects import Delivered

STRICT = Promised("strict", recovery=True, replication=True)
LINE = {"a": ["b"], "b": ["a", "c"], "c": ["b"]}


def view() -> tuple[Board, StreamView]:
    board = Board()
    streams = StreamView(board, ChartPoints())
    streams.homes = {"p": "a", "s": "c"}
    streams.on_subscribed("s", "1", "price > 10", 0)
    return board, streams


def publish(streams: StreamView, seq: int, price: int, matches: bool = True, at_us: int = 1_000) -> Publication:
    made = Publication("p", seq, at_us, None, {"price": price})
    streams.on_published(made, [("s", "1")] if matches else [], at_us)
    return made


def deliver(
    streams: StreamView, made: Publication, now_us: int = 3_000, via: Any = "original", held_us: int = 0
) -> None:
    streams.on_delivered("s", Delivered(made, ("1",), via, held_us), now_us)


def lamp(streams: StreamView, name: str, promised: Promised = STRICT, down: tuple[str, ...] = ()) -> dict[str, Any]:
    return dict(lamps(streams.promise_numbers(), promised, list(down)))[name]


def incident(streams: StreamView, node: str, kind: str, source: str | None, first: int | None, count: int = 1) -> None:
    streams.on_row("incidents", (node, 5_000, kind, None, None, source, first, count, "why", None, None))


def test_what_was_published_owed_delivered_recovered_and_lost_by_source_and_subscription() -> None:
    board, streams = view()
    first, second = publish(streams, 1, 20), publish(streams, 2, 30)
    publish(streams, 3, 40)
    publish(streams, 4, 5, matches=False)
    deliver(streams, first)
    deliver(streams, second, now_us=9_000, via="repair", held_us=2_000)
    incident(streams, "s", "unrecoverable", "p", 3)
    incident(streams, "s", "unrecoverable", None, None)
    streams.show(1.0)
    for key in ("total", "source/p"):
        entry = board.get(key) or {}
        assert (entry["published"], entry["owed"], entry["delivered"], entry["recovered"]) == (4, 3, 2, 1)
        assert (entry["lost"], entry["held"], entry["published_per_s"]) == (1, 1, 4.0)
    assert (board.get("total") or {})["doubts"] == 1
    mine = board.get("subscription/s/1") or {}
    assert (mine["owed"], mine["delivered"], mine["share"], mine["lost_by_client"]) == (3, 2, 2 / 3, 1)
    assert mine["delay_ms"] == 5.0  # of 2 and 8
    streams.show(1.0)
    assert (board.get("total") or {})["delay_ms"] is None  # nothing came in this second


def test_lamps_hold_wait_and_break_with_an_example() -> None:
    _, streams = view()
    made, later = publish(streams, 1, 20), publish(streams, 2, 20)
    assert lamp(streams, "P4")["state"] == "waiting"
    deliver(streams, later)
    deliver(streams, made)
    assert lamp(streams, "P4")["state"] == "holds"
    assert lamp(streams, "P3")["state"] == "broken" and lamp(streams, "P3")["examples"] == ["p/1 to s came after p/2"]
    assert lamp(streams, "P3", Promised())["state"] == "unpromised"
    assert lamp(streams, "P2")["state"] == "holds"
    deliver(streams, made)
    assert lamp(streams, "P2")["state"] == "broken"
    streams.on_delivered("s", Delivered(publish(streams, 3, 1, matches=False), (), "original"), 9)
    assert lamp(streams, "P1")["state"] == "broken"
    assert lamp(streams, "P6", down=("b",))["state"] == "waiting" and lamp(streams, "P6")["state"] == "holds"
    streams.on_row("samples", ("b", 1, "stored events", 11.0, 10.0))
    assert lamp(streams, "P7")["state"] == "broken"


def test_thousands_of_events_and_subscriptions_take_bounded_memory() -> None:
    _, streams = view()
    for seq in range(1, 5_001):
        publish(streams, seq, 20)
        incident(streams, "s", "suspected", None, None)
    for number in range(3_000):
        streams.on_subscribed("many", str(number), "TRUE", 0)
    assert len(streams.events) == 2_000
    assert len(streams.incidents) == 200
    assert len(streams.subscriptions) == 1_000


def reason(streams: StreamView, board: Board, seq: int) -> tuple[str, str]:
    event = streams.events.get("p", seq)
    assert event is not None
    found = why_not(event, ("s", "1"), streams, board, ["a", "b", "c"])
    return found.stopped_by, f"{found.words} {found.details}"


def test_why_a_subscription_has_not_got_an_event() -> None:
    board, streams = view()
    deliver(streams, publish(streams, 1, 20), now_us=4_000, held_us=1_000)
    assert reason(streams, board, 1) == (
        "nothing",
        "s got p/1 after 3.0 ms, by its original way, of which it was held back for 1.0 ms ()",
    )
    publish(streams, 2, 5, matches=False)
    assert reason(streams, board, 2) == (
        "constraint",
        "the event does not match price > 10 ('price > 10: price is 5',)",
    )
    publish(streams, 3, 20, matches=False, at_us=-2_000_000)
    assert reason(streams, board, 3)[0] == "subscription"
    publish(streams, 4, 20)
    incident(streams, "s", "unrecoverable", "p", 4)
    assert reason(streams, board, 4)[0] == "loss"
    publish(streams, 5, 20)
    assert reason(streams, board, 5)[0] == "way"
    board.put("link/b~c", {"state": "up", "lost": 2.0, "loss": 0.1})
    assert reason(streams, board, 5)[0] == "link" and "b–c loses" in reason(streams, board, 5)[1]
    board.put("link/b~c", {"state": "cut"})
    assert "b–c is cut" in reason(streams, board, 5)[1]
    board.put("broker/b", {"state": "down"})
    assert reason(streams, board, 5)[0] == "broker"


def test_an_event_that_waits_for_an_earlier_one_is_latched() -> None:
    board, streams = view()
    publish(streams, 1, 20)
    publish(streams, 2, 20)
    board.put("total", {"held_now": 1})
    assert reason(streams, board, 2) == ("latch", "it waits at s for p/1, which has not come ('way: a → b → c',)")


def test_what_a_condition_would_match_and_who_covers_it() -> None:
    _, streams = view()
    for seq, price in enumerate((5, 20, 30), 1):
        publish(streams, seq, price)
    graph = RoutingGraph(LINE, "subscriptions", {})
    found = about_condition({"condition": "price > 15", "broker": "c"}, streams, graph)
    assert (found["matches"], found["events"], found["covering_count"]) == (2, 3, 1)
    assert [each["seq"] for each in found["latest"]] == [3, 2]
    assert [each["state"] for each in found["brokers"]] == ["stops", "stops", "goes"]  # s at c has told them already
    wider = about_condition({"condition": "price > 1", "broker": "c"}, streams, graph)
    assert (wider["covering_count"], wider["covered_count"]) == (0, 1)
    assert [each["state"] for each in wider["brokers"]] == ["goes", "goes", "goes"]
    with pytest.raises(HoldfastError, match="column"):
        about_condition({"condition": "price >"}, streams, graph)


def test_with_advertisements_a_condition_goes_where_somebody_publishes_what_it_may_match() -> None:
    graph = RoutingGraph(LINE, "advertisements", {"a": (parse("price > 100"),)})
    cheap = {each["broker"]: each["state"] for each in goes_to(parse("price < 10"), "b", {}, graph)}
    assert cheap == {"a": "stops", "b": "goes", "c": "stops"}
    dear = {each["broker"]: each["state"] for each in goes_to(parse("price > 50"), "b", {}, graph)}
    assert dear == {"a": "goes", "b": "goes", "c": "stops"}


def test_explaining_needs_no_run() -> None:
    found = explained({"condition": "price < 120", "event": {"price": 130}})
    assert (found["matches"], found["words"].splitlines()[-1]) == (False, "  price < 120: price is 130")
    with pytest.raises(HoldfastError, match="JSON object"):
        explained({"condition": "price < 120", "event": 7})
