"""Who is next to whom: told by heartbeats and by a real ZooKeeper, with the same kit; and what is refused."""

import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from holdfast.model.errors import InputError
from holdfast.net import event_loop
from holdfast.net.directory import directory_at
from holdfast.net.free_ports import free_ports
from holdfast.net.zookeeper import names_untrusted
from holdfast.testing.directories import CHECKS, Check, run

JAR = Path("/usr/share/java/zookeeper.jar")  # of Debian's package zookeeper
_paths = count(1)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_heartbeats_tell_who_is_next_to_whom(check: Check) -> None:
    event_loop.run(run(check, None))


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of our own, on a free port."""
    if not JAR.exists():
        pytest.skip("ZooKeeper is not installed (apt-get install zookeeper)")
    folder = tmp_path_factory.mktemp("zookeeper")
    port = free_ports()
    config = folder / "zoo.cfg"
    config.write_text(
        f"dataDir={folder}\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\ntickTime=200\n"
    )
    command = ["java", "-cp", str(JAR), "org.apache.zookeeper.server.ZooKeeperServerMain", str(config)]
    log = (folder / "log").open("w")
    server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()
        log.close()


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_zookeeper_tells_who_is_next_to_whom(check: Check, zookeeper: str) -> None:
    event_loop.run(run(check, directory_at(f"zookeeper://{zookeeper}/test{next(_paths)}")))


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("http://127.0.0.1:2181", "write it as zookeeper://HOST:PORT/PATH"),
        ("zookeeper://127.0.0.1/x", "127.0.0.1 is no HOST:PORT"),
        ("zookeeper://a:1,b/x", "b is no HOST:PORT"),
        ("zookeeper:///x", "nothing is no HOST:PORT"),
    ],
)
def test_an_address_that_is_none_is_explained(address: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        directory_at(address)


@pytest.mark.parametrize("data", [None, b"", b"\xff", b"7", b'{"a": 1}', b'["a", 1]', b"[" * 100_000], ids=range(7))
def test_what_others_have_written_there_is_no_news(data: bytes | None) -> None:
    assert names_untrusted(data) == ()
