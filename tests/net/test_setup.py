"""Set-ups that cannot be are refused at start, in one line that says where, what is expected and what to write."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from holdfast.carriers.connecting import connect
from holdfast.cli import VERBS
from holdfast.cli.app import app
from holdfast.cli.verbs import wanted
from holdfast.model.errors import InputError
from holdfast.net.address import Address, parse_address
from holdfast.net.node import BrokerNode
from holdfast.net.settings import NodeSettings
from holdfast.net.setup import check_broker
from holdfast.net.tls import TlsFiles
from holdfast.network.load import load
from holdfast.protocol.settings import ProtocolSettings
from tests.net.harness import fails, lab, live
from tests.net.raw import RawPeer

HERE = "tcp://127.0.0.1:7001"
LISTEN = parse_address(HERE)
ELSEWHERE = parse_address("tcp://127.0.0.1:7002")
GOOD = NodeSettings("b1", (LISTEN,), {"b2": ELSEWHERE})


def one_line(problem: BaseException) -> str:
    (line,) = str(problem).splitlines()
    return line


@pytest.mark.parametrize("name", ["b1", "client-0a1b2c", "desk_1", "東京", "a/b:c.d@e+1", "x" * 255])
def test_a_name_is_anything_printable_without_white_space(name: str) -> None:
    check_broker(replace(GOOD, name=name))
    connect(HERE, name=name)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("", "1 to 255 characters, not 0"),
        ("x" * 256, "1 to 255 characters, not 256"),
        ("my broker", "'my broker' holds white space; write it for instance as my-broker"),
        ("b1\n", r"'b1\n' holds white space"),
        ("b\t1", "white space"),
        ("b\u00a01", r"'b\xa01' holds white space"),
        ("b\x001", r"'b\x001' holds a character that cannot be printed; write it for instance as b-1"),
        ("b\x1b[31m", "cannot be printed"),
        ("b\ud800", "cannot be printed"),
        ("b\u200b", "cannot be printed"),
        (7, "is 7; it must be a text"),
        (None, "must be a text"),
    ],
)
def test_what_is_no_name_is_refused_for_brokers_clients_and_peers(name: Any, complaint: str) -> None:
    for attempt in (
        lambda: check_broker(replace(GOOD, name=name)),
        lambda: check_broker(replace(GOOD, peers={name: ELSEWHERE})),
        lambda: connect(HERE, name=name),
    ):
        if name is None and attempt.__code__.co_names[0] == "connect":
            continue  # it gets one of its own
        with pytest.raises(InputError) as problem:
            attempt()
        assert complaint in one_line(problem.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tcp://127.0.0.1:65536", "'tcp://127.0.0.1:65536': there is no port 65536; ports go from 1 to 65535"),
        ("tcp://127.0.0.1:99999999", "no port 99999999"),
        ("tcp://127.0.0.1:seven", "not an address; write it as tcp://host:port"),
        ("tcp://127.0.0.1:1:2", "not an address"),
        ("tcp://127.0.0.1:-1", "not an address"),
        ("tcp://127.0.0.1:", "not an address"),
        ("tcp://127.0.0.1:70\n01", "not an address"),
        ("tcp://127.0.0.1:7001 ", "not an address"),
        ("tcp://my host:7001", "not an address"),
        ("tcp://127.0.0.1:٧٠", "not an address"),
        ("tcp://127.0.0.1", "not an address"),
        ("tcp://:7001", "not an address"),
        ("tcp://[::1:7001", "not an address"),
        ("http://127.0.0.1:7001", "not an address"),
        ("127.0.0.1:7001", "not an address"),
        ("tcp://a@b:7001", "not an address"),
        ("tcp://127.0.0.1:7001/x", "not an address"),
        ("", "not an address"),
        (7001, "7001 is not an address"),
        (None, "None is not an address"),
        ("tcp://127.0.0.1:0", "port 0 cannot be dialled; write the port that the broker listens on"),
    ],
)
def test_what_is_no_address_is_refused(text: Any, complaint: str) -> None:
    for given in (text, [HERE, text]):
        with pytest.raises(InputError) as problem:
            connect(given if isinstance(given, list) or isinstance(text, str) else [given])
        assert complaint in one_line(problem.value)


@pytest.mark.parametrize("text", ["tcp://127.0.0.1:1", "udp://[::1]:65535", "tls://example.org:7001/", HERE])
def test_what_is_an_address_comes_out_as_it_was_written(text: str) -> None:
    assert str(parse_address(text, to_dial=True)) == text.rstrip("/")


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"listen": (LISTEN, LISTEN)}, "which are the same port; leave one out"),
        ({"listen": (LISTEN, replace(LISTEN, scheme="tls"))}, "which are the same port"),
        ({"peers": {"b1": ELSEWHERE}}, "peer b1: this is the broker's own name"),
        ({"peers": {"b2": LISTEN}}, "peer b2: tcp://127.0.0.1:7001 is the address of b1 itself"),
        ({"peers": {"b2": ELSEWHERE, "b3": ELSEWHERE}}, "peers b2 and b3 have the same address, tcp://127.0.0.1:7002"),
        ({"peers": {"b2": Address("tcp", "127.0.0.1", 0)}}, "peer b2: port 0 of"),
        ({"routing": "fastest"}, "routing is 'fastest'; it can be subscriptions, advertisements, destinations"),
        ({"hops": "nack"}, "hops must be HopSettings, found 'nack'"),
        ({"queue_bytes": 0}, "queue_bytes must be a whole number of bytes, 1 or more, found 0"),
        ({"queue_bytes": 1.5}, "bytes, 1 or more, found 1.5"),
        ({"queue_bytes": True}, "bytes, 1 or more, found True"),
        ({"blocked_s_max": 0}, "blocked_s_max must be a number of seconds above 0, found 0"),
        ({"blocked_s_max": float("nan")}, "seconds above 0, found nan"),
        ({"blocked_s_max": "30"}, "seconds above 0, found '30'"),
        ({"queue_bytes": 0, "push_back": 1}, "found 0; push_back is 1; it can be True or False"),
        ({"protocol": None}, "protocol must be ProtocolSettings, found None"),
    ],
    ids=str,
)
@live
async def test_a_broker_that_cannot_be_is_refused_before_it_starts(changed: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError) as problem:
        BrokerNode(replace(GOOD, **changed))
    assert complaint in one_line(problem.value)


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"heartbeat_us": 0}, "heartbeat_us must be a whole number of microseconds above 0, up to"),
        ({"lease_us": -1}, "found -1"),
        ({"lease_us": 1_000_000}, "make the lease three times as long, or longer"),
        ({"filters_max": 0}, "filters_max must be a whole number of filters from 1 to 100,000,000, found 0"),
        ({"hops_max": 2.5}, "found 2.5"),
        ({"dedup_window": 0}, "dedup_window must be"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_not_made(changed: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError) as problem:
        ProtocolSettings(**changed)
    assert complaint in one_line(problem.value)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"settings": 5}, "settings must be ProtocolSettings, found 5"),
        (
            {"certificate": 5, "order": "fif"},
            "certificate must be a path in quotes, found 5; order is 'fif'; it can be",
        ),
        ({"hops": "three"}, "hops is 'three'; it can be basic, nack"),
        ({"hops": "nack", "durable": True}, 'durable does not go with hops = "nack"; use hops = "retransmission"'),
        ({"recovery": "yes"}, "recovery is 'yes'"),
        ({"order": "sorted"}, "order is 'sorted'; it can be none, fifo, strict"),
        ({"durable": "yes"}, "durable is 'yes'; it can be True or False"),
    ],
    ids=str,
)
def test_a_client_that_cannot_be_is_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError) as problem:
        connect(HERE, **options)
    assert complaint in one_line(problem.value)
    with pytest.raises(InputError, match="needs the address of a broker"):
        connect([])


@live
async def test_a_queue_that_cannot_be_is_refused_and_leaves_nothing_behind() -> None:
    async with lab() as net:
        client = await net.client(await net.broker("b1"))
        for size in (0, -1, 1.5, "10", True, None):
            with pytest.raises(InputError, match="queue_max is"):
                client.subscribe("n > 0", queue_max=size)  # type: ignore[arg-type]
        for lifetime in (0, -1, float("nan"), float("inf"), "60"):
            await fails(client.publish({"n": 1}, lifetime=lifetime), InputError)  # type: ignore[arg-type]
        assert not client._inboxes


@live
async def test_somebody_else_s_client_with_a_name_that_is_none_is_not_let_in() -> None:
    async with lab() as net:
        broker = await net.broker("b1")
        async with RawPeer(broker.listening[0]) as raw:
            refusal = await raw.greet("desk\n2026-01-01 forged")
            assert "white space" in str(refusal)
        assert broker.neighbours == ()


BROKER = ["broker", "--id", "b1", "--listen", "tcp://127.0.0.1:0"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["broker", "--id", "my broker"], "the broker's name 'my broker' holds white space"),
        (["broker", "--id", ""], "1 to 255 characters, not 0"),
        (["broker", "--id", "b1", "--listen", "tcp://127.0.0.1:70000"], "there is no port 70000"),
        (["broker", "--id", "b1", "--listen", HERE, "--listen", HERE], "which are the same port"),
        ([*BROKER, "--peer", "b2=tcp://127.0.0.1:70000"], "there is no port 70000"),
        ([*BROKER, "--peer", "b2=tcp://127.0.0.1:0"], "cannot be dialled; write the port"),
        ([*BROKER, "--peer", f"b1={HERE}"], "peer b1: this is the broker's own name"),
        ([*BROKER, "--peer", f"b 2={HERE}"], "the peer's name 'b 2' holds white space"),
        ([*BROKER, "--peer", f"b2={HERE}", "--peer", "b2=tcp://127.0.0.1:7002"], "there is a peer b2 already"),
        ([*BROKER, "--peer", f"b2={HERE}", "--peer", f"b3={HERE}"], "have the same address"),
        (["broker", "--id", "b1", "--listen", HERE, "--peer", f"b2={HERE}"], "the address of b1 itself"),
        (["broker", "--id", "b1", "--listen", HERE, "--metrics", "127.0.0.1:7001"], "the broker itself listens there"),
        ([*BROKER, "--metrics", "127.0.0.1:70000"], "there is no port 70000"),
        ([*BROKER, "--metrics", "here"], "not a place to listen; write it as HOST:PORT"),
        ([*BROKER, "--peers", "/nowhere/peers.txt"], "cannot be read: no such file or directory"),
        (["sub", "n > 0", "--name", "my desk"], "the client's name 'my desk' holds white space"),
        (["sub", "n > 0", "--broker", "tcp://127.0.0.1:70000"], "there is no port 70000"),
        (["sub", "n > 0", "--timeout", "inf"], "--timeout inf: it must be a finite number of seconds above 0"),
        (["sub", "n > 0", "--order", "sorted"], "order is 'sorted'"),
        (["pub", "--rate", "nan"], "--rate nan: it must be a finite number of events a second above 0"),
        (["pub", "--rate", "-3"], "--rate -3"),
        (["pub", "--lifetime", "inf"], "--lifetime inf"),
        (["pub", "--name", "a b"], "holds white space"),
        (["gateway", "--log", "LOG", "--name", "my gateway"], "the gateway's name 'my gateway' holds white space"),
        (["gateway", "--log", "LOG", "--keep-mb", "inf"], "--keep-mb inf"),
        (["gateway", "--log", "LOG", "--broker", "tcp://127.0.0.1:0"], "cannot be dialled; write the port"),
        (["replicate", "--faulty", "b 1", "--peer", f"b2={HERE}"], "holds white space"),
        (["replicate", "--faulty", "b1", "--peer", f"b2={HERE}", "--peer", "b2=tcp://127.0.0.1:9"], "named twice"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_the_command_line_refuses_it_and_starts_nothing(arguments: list[str], complaint: str, tmp_path: Path) -> None:
    given = [str(tmp_path / "log") if each == "LOG" else each for each in arguments]
    found = CliRunner().invoke(app(wanted(given, VERBS)), given, input="")
    assert isinstance(found.exception, InputError), found.output  # which main tells in one line, with exit code 2
    assert complaint in one_line(found.exception)
    assert found.stdout == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ('[[broker]]\nid = "b 1"', "a name"),
        ('[[broker]]\nid = "b1"\nlisten = "127.0.0.1:70000"', "ports go up to 65,535"),
        ('[[broker]]\nid = "b1"\nlisten = "127.0.0.1"', 'such as "127.0.0.1:7001"'),
        ('[[broker]]\nid = "b1"\nlisten = "my host:7001"', 'such as "127.0.0.1:7001"'),
        (
            '[[broker]]\nid = "b1"\nlisten = "h:1"\n[[broker]]\nid = "b2"\nlisten = "h:1"\n'
            '[topology]\nlinks = [["b1", "b2"]]',
            '"b1" listens at h:1 already',
        ),
        (
            '[topology]\nkind = "line"\nbrokers = 3\n[transport]\nkind = "tcp"\nport = 7001\nmetrics_port = 7003',
            "overlap",
        ),
        ('[topology]\nkind = "line"\nbrokers = 3\n[transport]\nport = 65534', "begin at 65533 or lower"),
        ('[topology]\nkind = "line"\nbrokers = 3\n[protocol]\nheartbeat_s = 0', "above 0"),
        ('[topology]\nkind = "line"\nbrokers = 3\n[protocol]\nlease_s = 0.5', "forgotten between two heartbeats"),
        ('[topology]\nkind = "line"\nbrokers = 3\n[links]\nqueue = 0', "from 1"),
    ],
)
def test_the_network_file_refuses_it_with_its_place(lines: str, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    file.write_text(lines)
    with pytest.raises(InputError) as problem:
        load(file)
    assert complaint in str(problem.value)
    assert "line " in str(problem.value)


@pytest.mark.parametrize("given", ["certificate", "key", "ca"])
def test_tls_files_for_addresses_without_tls_are_refused(given: str) -> None:
    with pytest.raises(InputError) as refused:
        connect(HERE, **{given: "x.pem"})  # type: ignore[arg-type]
    assert one_line(refused.value).startswith(f"{given} given, but no address begins with tls://")
    with pytest.raises(InputError, match="nothing would be encrypted"):
        check_broker(replace(GOOD, tls=TlsFiles(**{given: "x.pem"})))
