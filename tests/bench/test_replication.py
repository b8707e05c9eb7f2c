"""The replication bench: what it reads off a trace."""

import pytest

from bench.replication import found_in, network, section, table


def incident(node: str, at_us: int, kind: str, peer: str = "f", copying: str | None = None) -> dict[str, object]:
    return {"node": node, "time_us": at_us, "kind": kind, "peer": peer, "copying": copying}


TABLES = {
    "incidents": [
        incident("f", 1_000_000, "crash"),
        incident("s", 1_100_000, "suspected"),
        incident("a", 1_200_000, "suspected"),
        incident("s", 3_000_000, "failover_requested", copying="ordered"),
        incident("f+1", 3_500_000, "replica_ready"),
        incident("s", 9_000_000, "suspected", "f+1"),
    ],
    "publications": [
        {"seq": seq, "time_us": at_us, "attr:v": value}
        for seq, at_us, value in ((1, 500_000, 9), (2, 1_150_000, 9), (3, 2_000_000, 2), (4, 2_500_000, 9))
    ],
    "deliveries": [
        {"seq": 1, "time_us": 510_000, "via": "original"},
        {"seq": 3, "time_us": 3_200_000, "via": "replica"},
        {"seq": 4, "time_us": 3_600_000, "via": "replica"},
    ],
}


def test_delays_and_losses_are_read_off_the_trace() -> None:
    found = found_in(TABLES, "ordered", [1, 5])  # type: ignore[arg-type]
    assert found["resumption_s"] == pytest.approx((0.2 + 0.6) / 2)
    assert found["replication_s"] == pytest.approx(0.5)
    assert (found["detection_s"], found["lost"], found["lost_outside"]) == (pytest.approx(0.2), 1, 0)
    assert found["ordering"] == 1


def test_a_trace_in_which_nothing_was_replaced_is_told() -> None:
    with pytest.raises(SystemExit, match="the trace has no failover_requested at s"):
        found_in({**TABLES, "incidents": TABLES["incidents"][:2]}, "ordered", [1])  # type: ignore[arg-type]


def test_no_condition_covers_another() -> None:
    text, wanted = network("ordered", 50, 1)
    assert len(set(text["client"][1]["subscriptions"])) == len(wanted) == 50  # type: ignore[index]


def test_the_page_shows_live_and_model_side_by_side() -> None:
    live = {"protocol": "ordered", **found_in(TABLES, "ordered", [1, 5])}  # type: ignore[arg-type]
    model = {"resumption_s": 7.3, "replication_s": 9.0, "ordering": 1.0}
    row = {"protocol": "ordered", "live": live, "model": model}
    data = {"date": "2020-01-01", "subscriptions": 10_000, "pending": 100, "rows": [row]}
    assert "| ordered | 0.40 s | 0.50 s | 1.000 | 0.200 s | 1.8 s | 1, 0 | 7.30 s | 9.00 s | 1.000 |" in table(data)
    assert "10,000" in section(data)
