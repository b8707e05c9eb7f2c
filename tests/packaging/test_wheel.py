"""The wheel, built and installed in environments of its own, far from the clone: what users get.

pip takes packages from wherever this machine is set up to take them.
"""

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast import __version__
from tests.house.tree import ROOT

PATIENCE_S = 900.0  # only so that what hangs ends
CLIENT_BYTES_MAX = 20_000_000
OF_PIP = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence.pth")

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]

CLIENT = """
import asyncio, sys
import holdfast

async def main(address):
    async with holdfast.connect(address) as client:
        cheap = client.subscribe("symbol = 'IBM' AND price < 120")
        await client.flush()
        for price in (130.0, 119.5):
            await client.publish({"symbol": "IBM", "price": price})
        async for delivery in cheap:
            print(delivery.event["price"])
            return

asyncio.run(asyncio.wait_for(main(sys.argv[1]), 60))
"""


def call(command: Sequence[object], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def environment() -> dict[str, str]:
    """Without a word about the clone."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}


@dataclass(frozen=True)
class Installed:
    """A virtual environment, and an empty folder to work in."""

    folder: Path
    work: Path

    def python(self, *words: object) -> str:
        return self._said(self.folder / "bin" / "python", *words)

    def holdfast(self, *words: object) -> str:
        return self._said(self.folder / "bin" / "holdfast", *words)

    def refused(self, *words: object) -> str:
        """What a verb says that ends with 2."""
        done = call([self.folder / "bin" / "holdfast", *words], self.work)
        assert (done.returncode, done.stdout) == (2, ""), done.stdout + done.stderr
        return done.stderr

    def _said(self, *command: object) -> str:
        done = call(command, self.work)
        assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    @contextmanager
    def broker(self) -> Iterator[str]:
        """The address of a broker that is ready."""
        words = [str(self.folder / "bin" / "holdfast"), "broker", "--id", "b1", "--listen", "tcp://127.0.0.1:0"]
        with subprocess.Popen(words, cwd=self.work, env=environment(), stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                ready = process.stdout.readline()
                yield next(word for word in ready.split() if word.startswith("tcp://"))
            finally:
                process.terminate()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheels and the source archives of both distributions."""
    folder = tmp_path_factory.mktemp("dist")
    for source in (ROOT, ROOT / "papers"):
        done = call([sys.executable, "-m", "build", "--outdir", folder, source], folder)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


def wheel(built: Path, name: str) -> Path:
    return built / f"{name}-{__version__}-py3-none-any.whl"


def install(folder: Path, *wanted: object) -> Installed:
    venv.create(folder / "env", with_pip=True)
    (folder / "work").mkdir()
    done = call([folder / "env" / "bin" / "python", "-m", "pip", "install", "-qq", *wanted], folder)
    assert done.returncode == 0, done.stderr
    return Installed(folder / "env", folder / "work")


@pytest.fixture(scope="module")
def client(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(tmp_path_factory.mktemp("client"), wheel(built, "holdfast"))


@pytest.fixture(scope="module")
def server(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(tmp_path_factory.mktemp("server"), f"{wheel(built, 'holdfast')}[broker]")


@pytest.fixture(scope="module")
def everything(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("everything")
    return install(folder, f"{wheel(built, 'holdfast')}[all]", wheel(built, "holdfast_papers"))


def test_the_wheel_holds_the_product_and_nothing_else(built: Path) -> None:
    product = {name.partition("/")[0] for name in zipfile.ZipFile(wheel(built, "holdfast")).namelist()}
    assert product == {"holdfast", "pyspark_holdfast", f"holdfast-{__version__}.dist-info"}
    papers = {name.partition("/")[0] for name in zipfile.ZipFile(wheel(built, "holdfast_papers")).namelist()}
    assert papers == {"holdfast_papers", f"holdfast_papers-{__version__}.dist-info"}


@pytest.mark.parametrize("name", ["holdfast", "holdfast_papers"])
def test_the_source_archive_has_the_files_of_the_wheel(name: str, built: Path) -> None:
    with tarfile.open(built / f"{name}-{__version__}.tar.gz") as archive:
        sources = {each.name.partition("/src/")[2] for each in archive.getmembers() if each.isfile()}
    installed = {each for each in zipfile.ZipFile(wheel(built, name)).namelist() if ".dist-info/" not in each}
    assert installed and installed <= sources


def test_a_client_is_small(client: Installed) -> None:
    [packages] = (client.folder / "lib").glob("python*/site-packages")
    client.python("-c", "import holdfast; holdfast.connect")
    ours = [each for each in packages.iterdir() if not each.name.startswith(OF_PIP)]
    size = sum(file.stat().st_size for each in ours for file in (each, *each.rglob("*")) if file.is_file())
    assert size < CLIENT_BYTES_MAX, f"{size:,} bytes: {sorted(each.name for each in ours)}"


def test_a_bare_client_talks_to_a_broker_from_another_environment(client: Installed, server: Installed) -> None:
    with server.broker() as address:
        assert client.python("-c", CLIENT, address) == "119.5\n"


def test_a_bare_client_names_what_it_lacks(client: Installed) -> None:
    assert client.refused("sub", "a = 1") == (
        "holdfast: this needs typer, which is not installed; add it with: pip install 'holdfast[broker]'\n"
    )


def test_the_extra_broker_is_enough_to_run_and_to_try_a_broker(server: Installed) -> None:
    assert "next: holdfast check" in server.holdfast("init", "net.toml")
    assert "brokers       5" in server.holdfast("check", "net.toml")
    assert "matches" in server.holdfast("explain", "price < 120", '{"price": 119}')
    with server.broker() as address:
        sub = [str(server.folder / "bin" / "holdfast"), "sub", "price < 120", "--broker", address, "--count", "1"]
        with subprocess.Popen(sub, cwd=server.work, env=environment(), stdout=subprocess.PIPE, text=True) as reader:
            assert reader.stdout is not None
            # A subscription is not there at once: publish until the event arrives.
            while reader.poll() is None:
                server_pub(server, address, {"price": 119.5})
            assert json.loads(reader.stdout.readline())["price"] == 119.5
    assert "pip install 'holdfast[sim]'" in server.refused("sim", "net.toml")
    assert "pip install 'holdfast[spark]'" in server.refused("audit", "run-7")
    assert "pip install holdfast-papers" in server.refused("reproduce", "gossip")


def server_pub(server: Installed, address: str, event: dict[str, float]) -> None:
    done = subprocess.run(
        [str(server.folder / "bin" / "holdfast"), "pub", "--broker", address],
        cwd=server.work,
        env=environment(),
        input=json.dumps(event) + "\n",
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_network_file_is_simulated_run_and_predicted_without_the_clone(everything: Installed) -> None:
    everything.holdfast("init", "net.toml")
    everything.holdfast("sim", "net.toml", "--set", "duration_s=5", "--out", "simulated")
    everything.holdfast("up", "net.toml", "--set", "duration_s=3", "--out", "live")
    everything.holdfast("init", "--preset", "planning-10", "plan.toml")
    assert "share of events" in everything.holdfast("plan", "plan.toml")
    assert "reproduce" in everything.holdfast("--help")
    assert "there is no study" in everything.refused("reproduce", "gosip")


@pytest.mark.spark
def test_the_spark_verbs_work_without_the_clone(everything: Installed) -> None:
    work = everything.work
    everything.holdfast("init", "audited.toml")
    everything.holdfast("sim", "audited.toml", "--set", "duration_s=5", "--out", "run-7")
    assert json.loads(everything.holdfast("audit", "run-7", "--json"))["owed"] > 0
    (work / "trades.jsonl").write_text('{"id": 1, "price": 119.5}\n{"id": 2, "price": 131.0}\n')
    (work / "wanted.toml").write_text('[subscriptions]\ncheap = "price < 120"\n')
    everything.holdfast("match", "trades.jsonl", "wanted.toml", "--key", "id", "--out", "matches")
    (work / "sweep.toml").write_text(
        'preset = "quickstart"\nseeds = 1\n[set]\nduration_s = 5\n[grid]\nlinks.loss = [0]\n'
    )
    everything.holdfast("sweep", "sweep.toml", "--out", "swept")
    counted = "from holdfast.spark import session; print(session().range(3).count())"
    assert everything.python("-c", counted) == "3\n"


@pytest.mark.spark
def test_the_demo_works_without_the_clone(everything: Installed) -> None:
    short = ("duration_s=14", "workload.stop_s=12", "fault.0.at_s=6")
    told = json.loads(everything.holdfast("demo", "--json", *(word for each in short for word in ("--set", each))))
    assert told["delivered"] == told["owed"] > 0
    assert (everything.work / told["report"]).exists()
