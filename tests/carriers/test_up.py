"""`holdfast up` of a file with `[carrier]`: its workload over a real server, and the audit of its trace."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.books.live import LiveBooks
from holdfast.books.trace import TraceWriter
from holdfast.carriers.servers import SERVERS
from holdfast.cli import main
from holdfast.cli.up import hosts, impairments, run_live
from holdfast.model.errors import InputError
from holdfast.net.clock import Clock
from holdfast.net.event_loop import run as run_loop
from holdfast.network.load import parse_text
from holdfast.network.provenance import about_run
from tests.carriers.servers import running

FILE = """
seed = 3
duration_s = 1.2
[carrier]
bus = "BUS"
lanes = "plant.{site}"
up_loss = 0.02
down_loss = 0.02
[reliability]
recovery = "end-to-end"
order = "strict"
[[client]]
id = "p"
count = 2
publish = [
  {every_s = 0.02, attributes = {site = "north", temp = 31}},
  {every_s = 0.05, attributes = {site = "south", temp = 35}},
]
[[client]]
id = "north"
count = 2
subscriptions = ["site = 'north' AND temp > 30"]
[[client]]
id = "hot"
subscriptions = ["temp > 30"]
"""
CRASH = '[[fault]]\nkind = "crash"\nbroker = "bus"\nat_s = 0.4\nfor_s = 0.2\n'


def live(text: str, out: Path, **settings: Any) -> None:
    network, clock = parse_text(text, settings=settings), Clock()
    with TraceWriter(out, about_run(network, "live", 3)) as trace:
        books = LiveBooks(trace)
        new_host = hosts(network, None, impairments(3), clock, books)
        assert run_loop(run_live(network, 3, new_host, books, clock, show=lambda run, books: None)) is not None
        books.close()


def audited(run: Path, capsys: pytest.CaptureFixture[str], engine: str) -> dict[str, Any]:
    with pytest.raises(SystemExit) as ended:
        main(["audit", str(run), "--engine", engine, "--json"])
    assert not ended.value.code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def check(found: dict[str, Any]) -> None:
    published = found["published"]
    assert 100 <= published <= 170  # 140 a second; a machine that is busy begins late
    assert found["owed"] > 2 * published
    assert found["delivered"] == found["owed"]
    assert (found["duplicates"], found["fifo_violations"], found["lost"]) == (0, 0, 0)
    assert found["recovered"]["repair"] > 0


def test_a_workload_over_nats_survives_a_crash_of_its_server_and_is_audited(tmp_path, capsys):
    if missing := SERVERS["nats"].missing():
        pytest.skip(missing)
    live(FILE.replace("BUS", "nats") + CRASH, tmp_path / "run")
    check(audited(tmp_path / "run", capsys, "embedded"))


@pytest.mark.slow
@pytest.mark.parametrize("bus", [each for each in SERVERS if each != "nats"])
def test_so_it_does_over_the_other_buses(bus, tmp_path, capsys):
    if missing := SERVERS[bus].missing():
        pytest.skip(missing)
    live(FILE.replace("BUS", bus) + CRASH, tmp_path / "run")
    check(audited(tmp_path / "run", capsys, "embedded"))


@pytest.mark.slow
def test_a_server_that_runs_already_is_used_and_left_alone(tmp_path, capsys):
    with running("nats", tmp_path) as server:
        live(FILE.replace("BUS", "nats"), tmp_path / "run", **{"carrier.address": server.address, "duration_s": 0.6})
        assert server.process is not None
        assert server.process.poll() is None
    found = audited(tmp_path / "run", capsys, "embedded")
    assert found["delivered"] == found["owed"] > 0


@pytest.mark.slow
@pytest.mark.spark
def test_spark_finds_the_same_in_the_trace(tmp_path, capsys):
    with running("mqtt", tmp_path) as server:
        live(FILE.replace("BUS", "mqtt"), tmp_path / "run", **{"carrier.address": server.address})
    small, large = (audited(tmp_path / "run", capsys, engine) for engine in ("embedded", "spark"))
    check(large)
    assert {key: large[key] for key in ("published", "owed", "delivered")} == {
        key: small[key] for key in ("published", "owed", "delivered")
    }


def test_a_bus_that_is_not_installed_is_named_with_the_way_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(SERVERS["redis"], "missing", staticmethod(lambda: "redis-server is not installed"))
    network = parse_text(FILE.replace("BUS", "redis"))
    with pytest.raises(InputError, match=r"redis-server is not installed, and carrier\.address names none"):
        hosts(network, None, impairments(3), Clock(), LiveBooks(None))


def test_faults_of_a_server_that_was_there_before_are_refused():
    """A trace would tell of a crash that never was."""
    address = {"carrier.address": "nats://127.0.0.1:4222"}
    network = parse_text(FILE.replace("BUS", "nats") + CRASH, settings=address)
    with pytest.raises(InputError, match=r"crash of the bus at nats://127.0.0.1:4222, which was there before this run"):
        hosts(network, None, impairments(3), Clock(), LiveBooks(None))
    hosts(parse_text(FILE.replace("BUS", "nats"), settings=address), None, impairments(3), Clock(), LiveBooks(None))
