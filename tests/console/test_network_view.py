"""The map's brokers and links, from statuses worked out by hand."""

from typing import Any

from holdfast.console.board import Board
from holdfast.console.chart_points import ChartPoints
from holdfast.console.network_view import LinkFacts, Look, NetworkView


def link(sent: int, lost: int = 0, **more: Any) -> dict[str, Any]:
    plain = {"kind": "broker", "received": 0, "repairs": 0, "queue_bytes": 0, "queue_messages": 0, "held_up": False}
    return plain | {"blocked": False, "round_trip_us": 0, "retransmitted": 0, "sent": sent, "lost": lost} | more


def status(name: str, time_s: float, sent: int, links: dict[str, Any], **peers: bool) -> dict[str, Any]:
    return {
        "broker": name,
        "time_s": time_s,
        "problems": [],
        "peers": peers,
        "clients": 0,
        "queues": {"limit": 1_000},
        "gauges": {"stored events": {"value": 9, "limit": 10}},
        "counters": {"sent": sent, "received": 0, "lost": 0, "dropped": 0},
        "links": links,
    }


def view() -> tuple[Board, NetworkView]:
    board = Board()
    return board, NetworkView(board, ChartPoints())


def test_rates_are_by_how_much_counters_grew_in_the_time_of_the_broker() -> None:
    board, network = view()
    for time_s, sent in ((10.0, 100), (12.0, 300)):
        statuses = {
            "a": status("a", time_s, sent, {"b": link(sent, lost=sent // 10)}, b=True),
            "b": status("b", time_s, 0, {"a": link(0)}, a=True),
        }
        network.look(Look(time_s, statuses))
    broker, between = board.get("broker/a"), board.get("link/a~b")
    assert broker is not None and between is not None
    assert (broker["state"], broker["sent"], broker["gauges"]) == ("up", 100.0, [["stored events", 9, 10]])
    assert (between["state"], between["per_s"], between["lost"], between["loss"]) == ("up", 100.0, 10.0, 0.1)


def test_a_broker_that_begins_anew_has_no_negative_rate_and_a_stale_status_keeps_the_last_one() -> None:
    board, network = view()
    for time_s, sent in ((1.0, 50), (2.0, 150), (2.0, 150)):
        network.look(Look(time_s, {"a": status("a", time_s, sent, {})}))
    assert (board.get("broker/a") or {})["sent"] == 100.0
    network.look(Look(3.0, {"a": status("a", 3.0, 5, {})}))
    assert (board.get("broker/a") or {})["sent"] == 0.0


def test_who_is_down_starting_replaced_and_not_watched() -> None:
    board, network = view()
    statuses = {"a": status("a", 1.0, 0, {}, dead=False, far=True), "old+1": status("old+1", 1.0, 0, {})}
    facts = (LinkFacts("a", "dead", 5_000, 0.03), LinkFacts("a", "old+1", cut=True))
    look = Look(1.0, statuses, {"dead": "killed"}, {"dead+2": "dead"}, {"old": "old+1"}, facts, {"c": "old"})
    network.look(look)
    states = {name: (board.get(f"broker/{name}") or {})["state"] for name in ("a", "dead", "dead+2", "old", "far")}
    assert states == {"a": "up", "dead": "down", "dead+2": "starting", "old": "replaced", "far": "unwatched"}
    assert (board.get("broker/old+1") or {})["stands_for"] == "old"
    assert (board.get("link/a~dead") or {})["state"] == "down"
    assert (board.get("link/a~old+1") or {})["state"] == "cut"
    assert (board.get("client/c") or {})["broker"] == "old+1"  # who has the place of its broker


def test_what_is_not_there_any_more_leaves_the_map() -> None:
    board, network = view()
    network.look(Look(1.0, {"a": status("a", 1.0, 0, {}, b=True)}))
    network.look(Look(2.0, {"a": status("a", 2.0, 0, {})}))
    assert board.get("link/a~b") is None and board.get("broker/b") is None


def test_two_hundred_brokers_take_little_time_and_little_memory() -> None:
    board, network = view()
    names = [f"b{number}" for number in range(200)]
    for second in range(3):
        statuses = {
            name: status(name, second, 7 * second, {names[at - 1]: link(7 * second)}, **{names[at - 1]: True})
            for at, name in enumerate(names)
        }
        network.look(Look(second, statuses))
    assert len(list(board.keys("link/"))) == 200
    assert (board.get("link/b1~b2") or {})["per_s"] == 7.0
