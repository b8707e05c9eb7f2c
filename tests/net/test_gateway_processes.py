"""A gateway as a process: killed in the middle of writing, started again, asked for what cannot be."""

import asyncio
import json
import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from threading import Event, Thread

import pytest

import holdfast
from holdfast.cli import main
from holdfast.gateway.client import BlockingGateway, GatewayClient, LoggedEvent
from holdfast.net.address import parse_address
from holdfast.net.event_loop import run as run_loop
from holdfast.net.free_ports import free_ports
from tests.net.test_processes import PATIENCE_S, Process, Processes


@pytest.fixture
def processes() -> Iterator[Processes]:
    found = Processes()
    yield found
    found.end()


def gateway(
    processes: Processes, broker: str, log: Path, *arguments: str, listen: str = "tcp://127.0.0.1:0"
) -> tuple[Process, str]:
    """A gateway that is subscribed at its broker, and its address."""
    made = processes.start("gateway", "--broker", broker, "--log", str(log), "--listen", listen, "--json", *arguments)
    ready = json.loads(made.line("ready"))
    made.line("subscribed", error=True)
    return made, ready["listen"][0]


async def read(address: str, stream: str, count: int) -> list[LoggedEvent]:
    """So many events from the beginning, as soon as they are there."""
    async with holdfast.connect_gateway(address) as client:
        found = await client.ends(stream, count - 1, PATIENCE_S)
        return [each async for each in client.fetch(found, 0, found.end)]


def test_what_a_killed_gateway_had_told_anybody_is_there_when_it_is_back(processes: Processes, tmp_path: Path) -> None:
    _, broker = processes.broker("b1")
    seen: list[LoggedEvent] = []
    enough = Event()

    def publish() -> None:
        with holdfast.connect_sync(broker, name="desk") as publisher:
            for n in count():
                publisher.publish({"n": n}, b"x" * 100)
                if enough.is_set():
                    return

    async def watch(address: str) -> None:
        async with holdfast.connect_gateway(address, patience=0.1) as client:
            events = client.follow((await client.streams())[0], len(seen))
            for _ in range(500):
                seen.append(await anext(events))

    publishing = Thread(target=publish)
    publishing.start()
    try:
        for _ in range(2):
            made, address = gateway(processes, broker, tmp_path / "gw", "--condition", "n >= 0")
            run_loop(watch(address))
            assert made.ask(signal.SIGKILL) == -signal.SIGKILL  # while more is coming in
    finally:
        enough.set()
        publishing.join()
    _, address = gateway(processes, broker, tmp_path / "gw")
    found = run_loop(read(address, "events", len(seen)))
    assert found[: len(seen)] == seen
    assert len(seen) == 1_000
    assert len({(each.source, each.seq) for each in found}) == len(found)
    assert [each.offset for each in found] == list(range(len(found)))


def test_a_batch_is_committed_once_although_its_gateway_is_killed(processes: Processes, tmp_path: Path) -> None:
    _, broker = processes.broker("b1")
    listen = f"tcp://127.0.0.1:{free_ports()}"
    with holdfast.connect_sync(broker) as subscriber:
        wanted = subscriber.subscribe("n >= 0")
        subscriber.flush()
        made, _ = gateway(processes, broker, tmp_path / "gw", listen=listen)

        async def publish(first: int, batches: int, killed: Process | None) -> None:
            async with holdfast.connect_gateway(listen) as client:
                for batch in range(first, first + batches):
                    rows = [{"n": batch * 100 + n} for n in range(100)]
                    asked = asyncio.create_task(client.publish(rows, "query", batch))
                    if killed is not None and batch == first + batches - 1:
                        await asyncio.sleep(0)
                        await asyncio.to_thread(killed.ask, signal.SIGKILL)
                        await asyncio.to_thread(gateway, processes, broker, tmp_path / "gw", listen=listen)
                    await asked  # asked again until there was an answer
                    await client.publish(rows, "query", batch)

        run_loop(publish(0, 5, made))
        run_loop(publish(5, 1, None))
        found = [wanted.next(timeout=PATIENCE_S) for _ in range(600)]
        assert [each.event["n"] for each in found] == list(range(600))
        with pytest.raises(TimeoutError):
            wanted.next(timeout=0.2)


def test_a_signal_stops_a_gateway_cleanly_and_it_counts(processes: Processes, tmp_path: Path) -> None:
    _, broker = processes.broker("b1")
    made, address = gateway(processes, broker, tmp_path / "gw", "--stream", "cheap=price < 10", "--name", "gw-1")
    with holdfast.connect_sync(broker) as publisher:
        publisher.publish({"price": 5})
    run_loop(read(address, "cheap", 1))
    assert made.ask(signal.SIGTERM) == 0
    stopped = json.loads(made.line("stopped"))
    assert (stopped["stopped"], stopped["cheap.events"], stopped["cheap.torn_bytes"]) == ("gw-1", 1, 0)
    again = processes.start(
        "gateway", "--broker", broker, "--log", str(tmp_path / "gw"), "--listen", "tcp://127.0.0.1:0"
    )
    assert again.line("ready").endswith(": cheap (1 events)")


def test_what_a_gateway_cannot_do_is_one_clear_line(
    processes: Processes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, broker = processes.broker("b1")
    _, place = gateway(processes, broker, tmp_path / "used", "--condition", "n >= 0")
    (tmp_path / "file").write_text("")
    log = str(tmp_path / "new")
    for arguments, complaint in [
        (["--log", str(tmp_path / "used")], "a gateway uses this folder already (process"),
        (["--log", str(tmp_path / "file")], "cannot be used as a log (Not a directory)"),
        (["--log", log, "--listen", place], "the port is in use"),
        (["--log", log, "--listen", "udp://127.0.0.1:0"], "a gateway listens on tcp:// or tls://"),
        (["--log", log, "--stream", "cheap"], "write it as NAME=CONDITION"),
        (["--log", log, "--stream", "a/b=n = 1"], "cannot be the name of a stream"),
        (["--log", log, "--stream", "a=n = 1", "--stream", "a=n = 2"], "there is a stream a already"),
        (["--log", log, "--keep-mb", "0.1"], "a log of 104857 bytes"),
        (["--log", log, "--broker", "b1"], "not an address"),
        (["--log", log, "--name", "x" * 201], "a gateway's name has 1 to 200 characters"),
    ]:
        with pytest.raises(SystemExit) as ended:
            main(["gateway", "--broker", broker, "--listen", "tcp://127.0.0.1:0", *arguments])
        said = capsys.readouterr()
        assert (ended.value.code, said.out) == (2, ""), arguments
        (line,) = said.err.splitlines()
        assert line.startswith("holdfast: ")
        assert complaint in line
    with pytest.raises(SystemExit):
        main(["gateway", "--log", log, "--condition", "price <"])
    assert "line 1, column 8" in capsys.readouterr().err


def test_a_client_can_be_used_without_spark_and_without_asyncio(processes: Processes, tmp_path: Path) -> None:
    _, broker = processes.broker("b1")
    _, address = gateway(processes, broker, tmp_path / "gw", "--condition", "n >= 0")
    with BlockingGateway(GatewayClient(parse_address(address))) as client:
        client.do(client.client.publish([{"n": 1}, {"n": 2}], "query", 0))
        stream = client.do(client.client.ends("events", 1, PATIENCE_S))
        assert [each.event for each in client.each(client.client.fetch(stream, 0, 2))] == [{"n": 1}, {"n": 2}]
