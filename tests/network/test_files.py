"""Events and subscriptions from Parquet and JSON Lines files."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.model.errors import InputError
from holdfast.network.load import load
from holdfast.network.problems import NetworkError
from holdfast.network.schema import Network, SubscriptionSpec
from holdfast.network.writing import to_toml

ROWS: list[dict[str, Any]] = [{"at": 2.5 * n, "symbol": f"S{n}", "price": 10.5 + n} for n in range(4)]


def jsonl(path: Path, rows: list[Any]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def network(folder: Path, clients: dict[str, Any] | None = None, **workload: Any) -> Network:
    file = folder / "net.toml"
    clients = {"publishers": 2} if clients is None else clients
    topology = {"kind": "line", "brokers": 3}
    workload = {"kind": "files"} | workload
    file.write_text(to_toml({"duration_s": 20, "topology": topology, "clients": clients, "workload": workload}))
    return load(file)


def problem(folder: Path, **settings: Any) -> str:
    with pytest.raises(NetworkError) as caught:
        network(folder, **settings)
    (found,) = caught.value.problems
    return str(found)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_rows_are_published_when_their_time_says(tmp_path: Path, suffix: str) -> None:
    if suffix == "jsonl":
        jsonl(tmp_path / "events.jsonl", ROWS)
    else:
        pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "events.parquet")
    drawn = list(network(tmp_path, events=f"events.{suffix}", time="at").publications())
    assert [each.at_us for each in drawn] == [0, 2_500_000, 5_000_000, 7_500_000]
    assert drawn[1].attributes == {"symbol": "S1", "price": 11.5}


def test_publishers_take_rows_in_turn(tmp_path: Path) -> None:
    jsonl(tmp_path / "e.jsonl", ROWS)
    found = network(tmp_path, events="e.jsonl", time="at")
    one, other = [client.id for client in found.clients if client.publishes]
    assert [each.client for each in found.publications()] == [one, other, one, other]


def test_a_column_may_name_the_publisher(tmp_path: Path) -> None:
    jsonl(tmp_path / "e.jsonl", [{"who": "c2", "x": 1}, {"who": "c1", "x": 2}])
    drawn = network(tmp_path, {}, events="e.jsonl", client="who").publications()
    assert [(each.client, each.attributes) for each in drawn] == [("c2", {"x": 1}), ("c1", {"x": 2})]


def test_timestamps_begin_when_the_workload_does(tmp_path: Path) -> None:
    first = datetime(2024, 5, 1, 9, 30, tzinfo=UTC)
    times = [first, first + timedelta(milliseconds=1500)]
    table = pa.table({"when": pa.array(times, pa.timestamp("ns", "UTC")), "x": [1, 2]})
    pq.write_table(table, tmp_path / "e.parquet")
    drawn = list(network(tmp_path, events="e.parquet", time="when", start_s=3).publications())
    assert [each.at_us for each in drawn] == [3_000_000, 4_500_000]
    jsonl(tmp_path / "e.jsonl", [{"when": each.isoformat(), "x": 1} for each in times])
    drawn = list(network(tmp_path, events="e.jsonl", time="when", start_s=3).publications())
    assert [each.at_us for each in drawn] == [3_000_000, 4_500_000]


def test_without_a_time_rows_come_at_a_rate(tmp_path: Path) -> None:
    jsonl(tmp_path / "e.jsonl", [{"x": n} for n in range(1_000)])
    drawn = list(network(tmp_path, events="e.jsonl", rate_per_s=10, spacing="periodic").publications())
    assert len(drawn) == 180  # from 1 s to 19 s
    assert [each.attributes["x"] for each in drawn] == list(range(180))


def test_missing_values_are_left_out_and_nested_ones_get_dotted_names(tmp_path: Path) -> None:
    jsonl(tmp_path / "e.jsonl", [{"x": None, "home": {"team": "Yankees"}}])
    (event,) = network(tmp_path, events="e.jsonl").publications()
    assert event.attributes == {"home.team": "Yankees"}


def test_subscriptions_go_to_the_client_they_name_or_in_turn(tmp_path: Path) -> None:
    jsonl(
        tmp_path / "s.jsonl",
        [
            {"condition": "x = 1"},
            {"condition": "x = 2", "client": "c3", "id": "mine", "from_s": 1.5, "until_s": 3, "note": "not ours"},
            {"condition": "x = 3"},
        ],
    )
    found = network(tmp_path, {"publishers": 1, "subscribers": "all"}, subscriptions="s.jsonl")
    assert [client.subscriptions for client in found.clients] == [
        (SubscriptionSpec("s1", "x = 1"),),
        (),
        (SubscriptionSpec("mine", "x = 2", 1_500_000, 3_000_000), SubscriptionSpec("s2", "x = 3")),
    ]
    assert not any(client.publishes for client in found.clients)


def test_a_file_that_is_not_there_is_told_before_anything_starts(tmp_path: Path) -> None:
    jsonl(tmp_path / "events.jsonl", ROWS)
    assert 'did you mean "events.jsonl"?' in problem(tmp_path, events="event.jsonl")
    assert "expected .parquet, .jsonl, .ndjson" in problem(tmp_path, events="events.csv")
    assert 'events.jsonl has no column "att"; did you mean "at"?' in problem(
        tmp_path, events="events.jsonl", time="att"
    )


def test_a_broken_parquet_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "e.parquet").write_bytes(b"PAR1 but not really")
    assert "e.parquet: cannot be read as Parquet" in problem(tmp_path, events="e.parquet")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"condition": "x = = 1"}, "s.jsonl, line 2, condition: the condition is not accepted"),
        ({"condition": 5}, "s.jsonl, line 2, condition: found 5, expected a SQL condition"),
        ({}, 's.jsonl, line 2: "condition" is missing'),
        ({"condition": "x = 1", "client": "c33"}, "s.jsonl, line 2, client: there is no client 'c33'; did you mean"),
        ({"condition": "x = 1", "client": ["c3"]}, "line 2, client: there is no client ['c3']"),
        ({"condition": "x = 1", "id": "s1", "client": "c1"}, 'there are two subscriptions called "s1"'),
        ({"condition": "x = 1", "from_s": -1}, "s.jsonl, line 2, from_s: found -1, expected a number of seconds"),
        ({"condition": "x = 1", "from_s": 2, "until_s": 1}, "line 2, until_s: the subscription ends before it begins"),
        ([1], "s.jsonl, line 2: expected a JSON object, found list"),
    ],
)
def test_a_bad_row_of_subscriptions_is_told_with_its_line(tmp_path: Path, row: Any, message: str) -> None:
    jsonl(tmp_path / "s.jsonl", [{"condition": "x = 1", "client": "c1"}, row])
    assert message in problem(tmp_path, subscriptions="s.jsonl")


def test_all_bad_rows_are_told_at_once(tmp_path: Path) -> None:
    jsonl(tmp_path / "s.jsonl", [{"condition": "x ="}, {"condition": "x = 1"}, {"condition": "y ="}])
    with pytest.raises(NetworkError) as caught:
        network(tmp_path, subscriptions="s.jsonl")
    assert ["line 1, " in str(each) for each in caught.value.problems].count(True) >= 1
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"at": 2, "x": 1}, {"at": 1, "x": 1}], "line 2: at goes back to 1 s before the row above it; sort the file"),
        ([{"at": 2, "x": 1}, {"at": "soon", "x": 1}], "line 2: at is 'soon'; expected seconds or a timestamp"),
        ([{"at": 2, "x": 1}, {"at": True, "x": 1}], "line 2: at is True"),
        ([{"at": 2, "x": 1}, {"x": 1}], "line 2: at is None"),
        ([{"at": 2, "x": 1}, {"at": 3, "x": [[1]]}], "line 2: event attribute x[0]: a list holds scalars"),
        ([{"at": 2, "x": 1}, 5], "line 2: expected a JSON object"),
    ],
)
def test_a_bad_event_is_told_with_its_line_when_it_is_read(tmp_path: Path, rows: list[Any], message: str) -> None:
    jsonl(tmp_path / "e.jsonl", rows)
    with pytest.raises(InputError) as caught:
        list(network(tmp_path, events="e.jsonl", time="at").publications())
    assert message in str(caught.value)


@pytest.mark.parametrize("who", ["c9", 5, ["c1"]])
def test_an_unknown_publisher_is_told(tmp_path: Path, who: object) -> None:
    jsonl(tmp_path / "e.jsonl", [{"who": "c1", "x": 1}, {"who": who, "x": 1}])
    with pytest.raises(InputError, match=r"line 2: who is .*, which is not a client that publishes"):
        list(network(tmp_path, {}, events="e.jsonl", client="who").publications())


def test_what_is_not_json_is_told(tmp_path: Path) -> None:
    (tmp_path / "e.jsonl").write_text('{"x": 1}\n{"x": \n')
    with pytest.raises(InputError, match=r"e\.jsonl, line 2: not JSON"):
        list(network(tmp_path, events="e.jsonl").publications())
    (tmp_path / "e.jsonl").write_bytes(b'{"x": "\xff"}\n')
    assert "e.jsonl: not UTF-8 text" in problem(tmp_path, events="e.jsonl")
