"""The bench of large tables: what is refused ends a row, and a turn that takes too long is not hidden."""

import asyncio
from typing import Any
from unittest import mock

import pytest

from bench import large_tables
from holdfast.net.event_loop import run
from holdfast.protocol.settings import ProtocolSettings


def row(**changed: Any) -> dict[str, Any]:
    small = {"name": "attack", "conditions": 2, "filters": 2, "messages": 1, "events": 3, "cpu_s": 1.0, "refused": ""}
    turns = {"longest_turn_ms": 9.0, "turns_too_long": 0, "dropping_longest_turn_ms": 4.0}
    return small | turns | {"dropping_turns_too_long": 0} | changed


def test_a_turn_that_takes_too_long_is_named() -> None:
    assert "No turn takes 50 ms" in large_tables.section(large_tables.together([row()], None))
    found = large_tables.together([row(dropping_longest_turn_ms=51.0)], None)
    assert [each["holds"] for each in found["checks"]] == [True, False]
    assert "does not hold for: attack, dropping." in large_tables.section(found)


@pytest.mark.parametrize(("budget", "refused"), [({}, False), ({"condition_bytes_max": 2**21}, True)])
def test_tables_cross_two_brokers_or_are_refused(budget: dict[str, int], refused: bool) -> None:
    settings = ProtocolSettings(heartbeat_us=1_000_000, lease_us=3_600_000_000, **budget)
    with (
        mock.patch.object(large_tables, "_PATIENT", settings),
        mock.patch.dict(large_tables.ROWS, {"attack": (12, 256)}),
    ):
        found = run(asyncio.wait_for(large_tables.measured("attack"), 60))
    assert bool(found["refused"]) == refused
    assert "condition_bytes_max" in found["refused"] or not refused
    assert found["filters"] == 12 * 256
