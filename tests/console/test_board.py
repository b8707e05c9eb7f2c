"""What pages are told: each change once, as fast as they read; and the last minutes of numbers, in bounded memory."""

from math import nan

from holdfast.console.board import Board
from holdfast.console.chart_points import ChartPoints


def told(board: Board, version: int | None) -> dict[str, object]:
    return dict(board.since(version).entries)


def test_a_new_page_gets_everything_and_then_what_has_changed() -> None:
    board = Board()
    board.advance()
    board.put("a", {"n": 1})
    board.put("b", {"n": 1})
    first = board.since(None)
    assert first.whole and first.entries == {"a": {"n": 1}, "b": {"n": 1}}
    board.advance()
    board.put("a", {"n": 1})  # as it was
    board.put("b", {"n": 2})
    second = board.since(first.version)
    assert not second.whole and second.entries == {"b": {"n": 2}} and second.skipped == 0


def test_a_slow_page_gets_the_last_state_of_each_entry_and_learns_how_much_it_missed() -> None:
    board = Board()
    board.advance()
    board.put("a", {"n": 0})
    known = board.since(None).version
    for number in range(1, 11):
        board.advance()
        board.put("a", {"n": number})
    found = board.since(known)
    assert found.entries == {"a": {"n": 10}}
    assert found.skipped == 9  # of ten updates it gets the last one


def test_what_is_gone_is_told_and_a_page_far_behind_begins_anew() -> None:
    board = Board()
    board.advance()
    board.put("a", {})
    known = board.since(None).version
    board.advance()
    board.remove("a")
    assert told(board, known) == {"a": None}
    for _ in range(1_000):
        board.advance()
    assert board.since(known).whole and told(board, known) == {}
    assert len(board._removed) == 0  # nothing is kept for pages that may never come


def test_a_removed_entry_that_comes_back_is_there() -> None:
    board = Board()
    board.put("a", {})
    board.remove("a")
    board.put("a", {"n": 1})
    assert told(board, None) == {"a": {"n": 1}}


def test_history_keeps_the_last_points_with_gaps_where_nothing_was_told() -> None:
    history = ChartPoints(points=3)
    for second, number in enumerate([1.0, 2.0, nan, 4.0]):
        history.advance(second)
        if number == number:
            history.put("broker/a", {"sent": number})
    assert history.of("broker/a") == {"time_s": [1.0, 2.0, 3.0], "sent": [2.0, None, 4.0]}
    assert history.of("nothing") == {"time_s": [1.0, 2.0, 3.0]}


def test_history_has_room_for_so_many_series_and_counts_those_it_refuses() -> None:
    history = ChartPoints(points=2, series_max=2)
    history.advance(0)
    history.put("a", {"x": 1, "y": 2, "z": 3})
    assert history.refused == 1 and set(history.of("a")) == {"time_s", "x", "y"}
    history.forget("a")
    history.put("b", {"x": 1})
    assert history.of("b")["x"] == [1.0]
