"""The log of a broker: one line per incident, and not more lines than anybody reads."""

import json
import os
from queue import Queue
from threading import Thread

import pytest

from holdfast.cli.slow_output import SlowLines
from holdfast.net.counters import Counters
from holdfast.net.journal import Journal, LogStyle, Note
from holdfast.protocol.effects import Incident


def journal(style: LogStyle = "json") -> tuple[Journal, list[str]]:
    lines: list[str] = []
    return Journal("b1", style, lines.append), lines


def test_an_incident_is_one_line_of_json_with_all_that_is_known() -> None:
    book, lines = journal()
    book.on_incident(Incident("lease_expired", "b2", 3), now_us=0)
    (line,) = lines
    found = json.loads(line)
    assert found.pop("time").endswith("+00:00")
    assert found == {
        "broker": "b1",
        "kind": "lease_expired",
        "about": "b2",
        "count": 3,
        "text": "lease_expired (b2), 3 times",
    }


def test_a_flood_is_added_up_and_no_incident_is_forgotten() -> None:
    book, lines = journal()
    for number in range(1_000):
        book.on_incident(Incident("expired", f"c1/{number}", 2), now_us=0)
    book.on_incident(Incident("lease_expired", "b2"), now_us=0)
    assert len(lines) < 20
    assert json.loads(lines[-1])["kind"] == "lease_expired"
    book.tick(Counters())
    counts = [json.loads(line)["count"] for line in lines if json.loads(line)["kind"] == "expired"]
    assert sum(counts) == 2_000
    book.on_incident(Incident("expired", "c1/1001"), now_us=0)
    assert json.loads(lines[-1])["about"] == "c1/1001"


def test_counters_that_should_not_grow_are_told_by_how_much_they_did() -> None:
    book, lines = journal("text")
    counters = Counters(dropped=5, received=100)
    book.tick(counters)
    counters.dropped += 2
    book.tick(counters)
    book.tick(counters)
    assert lines == ["b1: dropped: 5", "b1: dropped: 2"]


@pytest.mark.parametrize("style", ["text", "json"])
def test_a_name_from_outside_cannot_write_a_line_of_its_own(style: LogStyle) -> None:
    book, lines = journal(style)
    book.note(Note("refused", "x\nb9: all is well", "x\nb9: all is well was not let in"))
    (line,) = lines
    assert "\n" not in line
    assert "all is well" in line


def test_a_log_that_nobody_reads_holds_nobody_up_and_says_what_it_dropped() -> None:
    reading, writing = os.pipe()
    lines = SlowLines(writing)
    for number in range(20_000):  # many times what a pipe and the queue hold
        lines.put(f"line {number:>90}")
    pages: Queue[bytes] = Queue()

    def read() -> None:
        while data := os.read(reading, 1 << 16):
            pages.put(data)
        pages.put(b"")

    Thread(target=read, daemon=True).start()
    found = b""
    lines.finish(limit_s=60)  # somebody reads now
    os.close(writing)
    while data := pages.get(timeout=60):
        found += data
    told = [int(line.split()[1].replace(b",", b"")) for line in found.splitlines() if b"were dropped" in line]
    written = sum(line.startswith(b"line ") for line in found.splitlines())
    assert sum(told) > 0
    assert sum(told) + written == 20_000
