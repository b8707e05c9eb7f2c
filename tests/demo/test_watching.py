"""What is shown while the demo runs: kept up to date from rows of the trace, drawn on a terminal or as lines."""

import io

from rich.console import Console

from holdfast.books.outcome import Outcome
from holdfast.books.rows import incident_row
from holdfast.demo.screen import NetworkOutline, RunScreen, picture
from holdfast.demo.watch import RunWatch, rooted
from holdfast.protocol.effects import Incident

TREE = {"hub": ["a", "b"], "a": ["hub", "c"], "b": ["hub"], "c": ["a"]}
SHAPE = NetworkOutline("a small network", TREE, "hub", 60.0)
SECOND_US = 1_000_000


def sample(watch: RunWatch, node: str, at_s: int, name: str, value: float) -> None:
    watch.on_row("samples", (node, at_s * SECOND_US, name, value, None))


def carried(watch: RunWatch, node: str, at_s: int, peer: str, sent: int, lost: int = 0) -> None:
    """A row of `links`: what went over a link in the second before."""
    watch.on_row("links", (node, peer, (at_s - 1) * SECOND_US, at_s * SECOND_US, sent, 100 * sent, lost))


def incident(watch: RunWatch, node: str, at_s: float, kind: str, peer: str | None = None, count: int = 1) -> None:
    watch.on_row("incidents", incident_row(node, int(at_s * SECOND_US), Incident(kind, peer or "", count))[1:])


def failing() -> RunWatch:
    """The hub has carried events for two seconds, dies, and is replaced."""
    watch = RunWatch()
    for at_s in (1, 2):
        for node, far in (("hub", "a"), ("a", "hub")):
            carried(watch, node, at_s, far, 50, 1)
    incident(watch, "hub", 2.5, "crash")
    incident(watch, "a", 2.6, "suspected", "hub")
    incident(watch, "b", 2.7, "suspected", "hub")
    incident(watch, "hub+1", 3.1, "replica_wanted", "hub")
    incident(watch, "hub+1", 4.0, "replica_started", "hub")
    return watch


def drawn(watch: RunWatch, outcome: Outcome) -> str:
    console = Console(width=80, height=24, file=io.StringIO(), record=True)
    console.print(picture(SHAPE, watch, outcome, 5.0))
    return console.export_text()


def test_links_add_up_both_directions_and_a_replicas_count_for_the_broker_it_replaces() -> None:
    watch = failing()
    link = watch.links[frozenset(("hub", "a"))]
    assert (link.sent, link.lost, link.loss_ratio) == (200, 4, 0.02)
    assert link.rate_per_s == 0  # of a link to a dead broker
    carried(watch, "hub+1", 5, "a", 30)
    assert (link.sent, link.rate_per_s) == (230, 30)
    assert set(watch.links) == {frozenset(("hub", "a"))}


def test_what_happens_is_told_once_in_words() -> None:
    watch = failing()
    incident(watch, "hub+1", 4.2, "replica_ready", "hub")
    assert [each.words for each in watch.happenings] == [
        "kill -9 hub",
        "a notices that hub is gone, and keeps events for it",
        "the neighbours of hub request a replica",
        "hub+1 starts and asks the neighbours of hub for its tables",
        "hub+1 knows all tables and replaces it",
    ]


def test_held_lost_and_dropped_are_counted_over_all_nodes() -> None:
    watch = RunWatch()
    sample(watch, "reader", 1, "messages held back", 7)
    sample(watch, "writer", 1, "messages held back", 2)
    sample(watch, "reader", 2, "messages held back", 3)
    watch.on_row("messages", ("a", "Publish", 0, SECOND_US, 90, 9_000, 4, 80))
    watch.on_row("messages", ("b", "Repair", 0, SECOND_US, 9, 900, 1, 8))
    incident(watch, "a", 1.0, "dropped", count=5)
    assert (watch.held, watch.lost, watch.overload) == (5, 5, 5)


def test_a_tree_is_walked_branch_by_branch() -> None:
    assert rooted(TREE, "hub") == [(0, "hub", None), (1, "a", "hub"), (2, "c", "a"), (1, "b", "hub")]


def test_a_terminal_of_24_lines_of_80_characters_shows_all_of_it() -> None:
    watch = failing()
    for second in range(1, 6):
        watch.on_second(10 * second, 40 * second, 3 * second)
    incident(watch, "a", 1.0, "dropped", count=5)
    text = drawn(watch, Outcome(published=50, owed=210, delivered=200, recovered={"repair": 15}, held=9))
    lines = text.splitlines()
    assert len(lines) <= 24 - 1  # the cursor's own
    assert max(map(len, lines)) <= 80
    for words in ("5 of 60 s", "hub+1", "│  └─ c", "0/s 2.0 %", "kill -9 hub", "dropped: overload", "█"):
        assert words in text, words
    assert "killed" in drawn(dead(), Outcome())


def dead() -> RunWatch:
    watch = RunWatch()
    incident(watch, "a", 1.0, "crash")
    return watch


def test_without_a_terminal_there_are_plain_lines() -> None:
    said, watch = io.StringIO(), failing()
    with RunScreen(SHAPE, watch, Console(file=said)) as view:
        view.show_step("starting")
        for second in range(1, 12):
            watch.on_second(10 * second, 40 * second, 3 * second)
            view.show(Outcome(published=10 * second, owed=45 * second, delivered=40 * second), float(second))
    lines = said.getvalue().splitlines()
    assert lines[0] == "starting"
    assert sum("kill -9 hub" in line for line in lines) == 1
    counts = [line for line in lines if "published" in line]
    assert len(counts) == 2
    assert counts[0].split() == (
        "5.0 s published 50 (10/s) delivered 200 (40/s) of 225 lost on links 0 recovered 0 held back 0".split()
    )
    assert "\x1b" not in said.getvalue()
