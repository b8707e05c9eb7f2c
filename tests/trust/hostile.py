"""A campaign of hostile frames against every door of a broker process, in every mode, beside a bystander.

    ./run python -m tests.trust.hostile --frames 2000000 --save hostile.json

Frames are counted when the broker has answered a ping behind them, or has closed the connection because of one. Each
mode is a broker of its own; a mode that is in the file of `--save` is not run again. The bystander is a process that
publishes to itself through the broker, and tells how long its events took. Another does the same at a broker that
nobody attacks: what it waits is the machine's own noise. Attackers run at low priority, as if on other machines.
"""

import argparse
import asyncio
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import psutil

import holdfast
from holdfast.model.errors import HoldfastError, PeerError
from holdfast.model.messages import Heartbeat
from holdfast.mqtt.encoding import encode
from holdfast.mqtt.packets import Connect, Pingreq
from holdfast.net import datagram
from holdfast.net.address import Address, parse_address
from holdfast.trust.authority import DevelopmentAuthority
from holdfast.wire.codec import decode_frame_untrusted, encode_message
from holdfast.wire.codec import framed as in_frame
from holdfast.wire.signals import LEVEL, Hello, Ping, Pong, decode_signal_untrusted, encode_signal
from tests.trust.absurd import Nonsense
from tests.trust.raw_datagrams import RawDatagrams

PROGRAM = [sys.executable, "-c", "from holdfast.cli import main; main()"]
RIGHTS = '[[right]]\nwho = ["*", "anonymous"]\npublish = "TRUE"\nsubscribe = "TRUE"\n'
MODES: dict[str, list[str]] = {
    "basic": [],
    "rights": ["--rights", "{folder}/rights.toml", "--token-keys", "{folder}/issuer.json"],
    "advertisements": ["--routing", "advertisements", "--broker-key", "{folder}/broker.key"],
    "nack": ["--hops", "nack"],
    "retransmission": ["--hops", "retransmission", "--store", "{folder}/b1.db"],
    "multipath": ["--hops", "multipath", "--routing", "destinations"],
    "hybrid": ["--hops", "hybrid", "--routing", "destinations", "--store", "{folder}/b2.db"],
}
SHARES = {"tcp": 0.5, "tls": 0.15, "udp": 0.2, "mqtt": 0.1, "ws": 0.04, "http": 0.01}  # of the frames, by door
_POOL = 2_000  # frames that are drawn anew for each door, mode and ten thousand frames
_CHUNK = 200  # frames between two pings
_ANSWER_S = 60.0  # the broker has answered by then, or is broken
_STALL_S = 120.0  # whoever is turned away for so long is kept out for good
_NICE = 5  # more than brokers and bystanders have
BYSTANDER_S = 0.01  # between two events of the bystander


class Attack:
    """Against one door, with so many frames."""

    def __init__(self, address: Address, frames: int, seed: int, folder: Path, broker: psutil.Process) -> None:
        self.address = address
        self._broker = broker
        self.left = frames
        self.counted = 0
        self._seed = seed
        self._folder = folder
        self._dice = Random(seed)
        self._drawn = 0
        self._name = f"anonymous.m{seed % 20}"
        self._pool = min(_POOL, frames + 20)
        self._progress = 0, time.monotonic()  # frames that were counted, and since when there are no more

    async def run(self) -> None:
        doors = {"udp": self._datagrams, "mqtt": self._packets, "ws": self._packets, "http": self._requests}
        while self.counted < self.left:
            self._check()
            self._drawn += 1
            pool = Nonsense(self._seed * 1_000_003 + self._drawn, self._name)
            goal = min(self.left, self.counted + 5 * _POOL)
            await doors.get(self.address.scheme, self._frames)(pool, goal)

    def _check(self) -> None:
        """That the broker is there: whoever attacks nobody would never end."""
        if not self._broker.is_running() or self._broker.status() == psutil.STATUS_ZOMBIE:
            words = (self._folder / "log").read_text(errors="replace")[-4_000:]
            raise AssertionError(f"the broker has ended:\n{words}")
        now_s = time.monotonic()
        if self.counted > self._progress[0]:
            self._progress = self.counted, now_s
        assert now_s < self._progress[1] + _STALL_S, f"{self.address} takes no more after {self.counted:,} frames"

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self._check()
        context = None
        if self.address.scheme == "tls":
            context = ssl.create_default_context(cafile=self._folder / "ca.pem")
        return await asyncio.open_connection(self.address.host, self.address.port, ssl=context)

    # Native, over streams ------------------------------------------------------------------------

    async def _frames(self, nonsense: Nonsense, goal: int) -> None:
        pool = [each for _ in range(self._pool) if _is_message(each := nonsense.frame())]
        while self.counted < goal:
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await self._connected()
                try:
                    await self._speak(reader, writer, pool, nonsense, goal)
                finally:
                    writer.transport.abort()

    async def _speak(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        pool: list[bytes],
        nonsense: Nonsense,
        goal: int,
    ) -> None:
        writer.write(
            _long(self._hello()) + _long(in_frame([encode_message(Heartbeat(1, ((0, 0),) * 2, kind="client"))]))
        )
        await _read_frame(reader)
        for token in range(1, 6):
            if self.counted >= goal:
                return
            writer.write(b"".join(_long(self._dice.choice(pool)) for _ in range(_CHUNK)))
            writer.write(_long(encode_signal(Ping(token))))
            async with _answered(self.address):
                while not _is_pong(await _read_frame(reader), token):
                    pass
            self.counted += _CHUNK
        writer.write(_long(nonsense.broken()) + _long(encode_signal(Ping(0))))
        self.counted += 1  # when it closes the connection, or the frame happened to be whole
        async with _answered(self.address):
            while not _is_pong(await _read_frame(reader), 0):
                pass

    def _hello(self) -> bytes:
        name = f"anonymous.m{self._dice.randrange(20)}"
        return encode_signal(
            Hello(name, "client", self._dice.randrange(1, 3), level=LEVEL, session=self._dice.choice([0, 7]))
        )

    # Datagrams -----------------------------------------------------------------------------------

    async def _datagrams(self, nonsense: Nonsense, goal: int) -> None:
        pool = [each for _ in range(self._pool) if len(each := nonsense.frame()) < 60_000]
        while self.counted < goal:
            self._check()
            with RawDatagrams(self.address) as peer:
                peer.nonce = self._dice.randbytes(8)
                with suppress(TimeoutError, OSError):
                    async with asyncio.timeout(1.0):
                        await peer.open()
                        peer.first(self._hello())
                        await peer.receive()
                    for token in range(1, 26):
                        for _ in range(_CHUNK // 5):  # as many as the kernel keeps for the broker
                            peer.tagged(self._dice.choice(pool))
                        peer.tagged(nonsense.broken())
                        peer.tagged(encode_signal(Ping(token)))
                        async with asyncio.timeout(1.0):
                            while not _is_pong((await peer.receive())[datagram.HEAD_BYTES :], token):
                                pass
                        self.counted += _CHUNK // 5 + 1

    # MQTT ----------------------------------------------------------------------------------------

    async def _packets(self, nonsense: Nonsense, goal: int) -> None:
        pool = [nonsense.packet() for _ in range(self._pool)]
        connect = encode(Connect(f"m{self._dice.randrange(20)}", 5), 5)
        while self.counted < goal:
            with suppress(OSError, asyncio.IncompleteReadError, EOFError, PeerError):
                reader, writer = await self._connected()
                try:
                    web = self.address.scheme == "ws"
                    if web:
                        writer.write(_UPGRADE)
                        await reader.readuntil(b"\r\n\r\n")
                    wrap = _masked if web else bytes
                    writer.write(wrap(connect))
                    for _ in range(5):
                        writer.write(wrap(b"".join(self._dice.choice(pool) for _ in range(_CHUNK // 4))))
                        writer.write(wrap(encode(Pingreq(), 5)))
                        async with _answered(self.address):
                            while b"\xd0\x00" not in (data := await reader.read(2**16)):
                                if not data:
                                    raise EOFError
                        self.counted += _CHUNK // 4
                    writer.write(wrap(nonsense.broken_packet()))
                finally:
                    self.counted += 1  # the one that closed it
                    writer.transport.abort()

    async def _requests(self, nonsense: Nonsense, goal: int) -> None:
        while self.counted < goal:
            with suppress(OSError):
                reader, writer = await self._connected()
                writer.write(nonsense.request())
                async with _answered(self.address):
                    await reader.read()
                writer.close()
                self.counted += 1


_UPGRADE = (
    b"GET /mqtt HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
)


@asynccontextmanager
async def _answered(address: Address) -> AsyncIterator[None]:
    """A timeout is an OSError, and who suppresses those would try again for ever."""
    try:
        async with asyncio.timeout(_ANSWER_S):
            yield
    except TimeoutError:
        raise AssertionError(f"{address} has not answered for {_ANSWER_S:.0f} s") from None


def _masked(data: bytes) -> bytes:
    """In a frame of a client, with a mask of zeros."""
    length = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
    if len(data) >= 2**16:
        length = b"\xff" + len(data).to_bytes(8, "big")
    return b"\x82" + length + bytes(4) + data


def _long(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def _is_message(frame: bytes) -> bool:
    try:
        if frame[1]:
            decode_signal_untrusted(frame)
        else:
            decode_frame_untrusted(frame)
    except PeerError:
        return False
    return len(frame) < 50_000


def _is_pong(frame: bytes, token: int) -> bool:
    try:
        return decode_signal_untrusted(frame) == Pong(token)
    except PeerError:
        return False


# The broker and the bystander --------------------------------------------------------------------


@asynccontextmanager
async def _broker(mode: str, folder: Path) -> AsyncIterator[tuple[psutil.Process, dict[str, Address]]]:
    authority = DevelopmentAuthority(folder, 30)

    authority.certify("broker", "b1", ["127.0.0.1"])
    authority.issue("bystander")
    (folder / "rights.toml").write_text(RIGHTS)
    listen = [f"{each}://127.0.0.1:0" for each in ("tcp", "tls", "udp", "mqtt")] + ["ws://127.0.0.1:0/mqtt"]
    options = [each.format(folder=folder) for each in MODES[mode]]
    doors = [part for each in listen for part in ("--listen", each)]
    tls = ["--certificate", str(folder / "b1.pem"), "--key", str(folder / "b1.key")]
    log = (folder / "log").open("wb")
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, "broker", "--preload", "--id", "b1", *doors, *tls, "--metrics", "127.0.0.1:0", *options, "--json",
        stdout=subprocess.PIPE, stderr=log,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        ready = json.loads(await process.stdout.readline())
        addresses = {each.scheme: each for each in map(parse_address, ready["listen"])}
        place = ready["metrics"].removeprefix("http://").partition("/")[0]
        addresses["http"] = Address("http", place.rpartition(":")[0], int(place.rpartition(":")[2]))
        yield psutil.Process(process.pid), addresses
        assert process.returncode is None, "the broker has ended"
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        log.close()


async def watch(address: str, token: str | None) -> None:
    """The bystander: until its stdin is closed; then its waits in milliseconds."""
    waits: list[float] = []
    loop = asyncio.get_running_loop()
    asked_to_stop = loop.run_in_executor(None, sys.stdin.read)
    name = None if token is None else "bystander"
    async with holdfast.connect(address, name=name, token=token) as client:
        wanted = client.subscribe("by = 'bystander'")
        await client.flush()
        print("ready", flush=True)
        while not asked_to_stop.done():
            began_s = time.monotonic()
            await client.publish({"by": "bystander"})
            await wanted.next(timeout=60)
            waits.append(1_000 * (time.monotonic() - began_s))
            await asyncio.sleep(BYSTANDER_S)
    waits.sort()
    print(json.dumps({"events": len(waits), "p99_ms": waits[len(waits) * 99 // 100], "longest_ms": waits[-1]}))


class Bystander:
    """In a process."""

    def __init__(self, mode: str, folder: Path, address: Address) -> None:
        token = [str(folder / "bystander.token")] if mode == "rights" else []
        self._command = [sys.executable, "-m", "tests.trust.hostile", "--watch", str(address), *token]

    async def __aexit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def __aenter__(self) -> "Bystander":
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = await asyncio.create_subprocess_exec(*self._command, **pipes)  # type: ignore[arg-type]
        assert self._process.stdout is not None
        assert await self._process.stdout.readline() == b"ready\n"
        return self

    async def end(self) -> dict[str, float]:
        assert self._process.stdout is not None and self._process.stdin is not None
        self._process.stdin.close()
        return json.loads(await self._process.stdout.readline())  # type: ignore[no-any-return]


async def run_mode(mode: str, frames: int, seed: int, parts: int = 5) -> dict[str, Any]:
    """Once a process: it lowers the priority of its own."""
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory() as quiet:
        folder, other = Path(place), Path(quiet)
        async with (
            _broker(mode, folder) as (process, doors),
            _broker(mode, other) as (_, spared),
            Bystander(mode, folder, doors["tcp"]) as bystander,
            Bystander(mode, other, spared["tcp"]) as control,
        ):
            os.nice(_NICE)
            began_s = time.monotonic()
            counted, memory = await _attacked(mode, frames, seed, parts, (folder, process, doors))
            passed_s = time.monotonic() - began_s
            return {
                "mode": mode, "frames": sum(counted.values()), "by_door": counted, "seconds": round(passed_s, 1),
                "memory_mib": memory, "bystander": await bystander.end(), "noise": await control.end(),
            }  # fmt: skip


async def _attacked(
    mode: str, frames: int, seed: int, parts: int, target: tuple[Path, psutil.Process, dict[str, Address]]
) -> tuple[dict[str, int], list[int]]:
    """Frames by door, and the broker's memory after each part."""
    folder, process, doors = target
    counted, memory = dict.fromkeys(SHARES, 0), list[int]()
    for part in range(parts):
        attacks = [
            Attack(doors[door], max(1, int(frames * share / parts)), seed * 100 + part * 10 + at, folder, process)
            for at, (door, share) in enumerate(SHARES.items())
        ]
        await asyncio.gather(*[each.run() for each in attacks])
        memory.append(process.memory_info().rss // 2**20)
        print(f"{mode}: {(part + 1) / parts:.0%}, {memory[-1]} MiB", file=sys.stderr, flush=True)
        for door, each in zip(SHARES, attacks, strict=True):
            counted[door] += each.counted
    return counted, memory


def _summed_up(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "frames": sum(row["frames"] for row in rows),
        "longest_ms": max(row["bystander"]["longest_ms"] for row in rows),
        "growth_mib": max(row["memory_mib"][-1] - row["memory_mib"][1] for row in rows),
        "rows": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=2_000_000)
    parser.add_argument("--modes", nargs="*", default=list(MODES))
    parser.add_argument("--save", type=Path)
    parser.add_argument("--again", action="store_true", help="also modes that the file has, whose rows are replaced")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--watch", nargs="+")
    given = parser.parse_args()
    if given.watch:
        asyncio.run(watch(given.watch[0], given.watch[1] if len(given.watch) > 1 else None))
        return
    rows = json.loads(given.save.read_text())["rows"] if given.save and given.save.exists() else []
    for mode in given.modes:
        if any(row["mode"] == mode for row in rows) and not given.again:
            continue
        at = list(MODES).index(mode)
        found = asyncio.run(run_mode(mode, given.frames // len(MODES), given.seed + at))
        rows = [row for row in rows if row["mode"] != mode]
        rows.append({"date": datetime.now(UTC).date().isoformat(), **found})
        print(json.dumps(rows[-1]), flush=True)
        if given.save:
            given.save.write_text(json.dumps(_summed_up(rows), indent=1) + "\n")
        os.nice(-_NICE) if os.geteuid() == 0 else None  # others start each mode by itself


if __name__ == "__main__":
    try:
        main()
    except HoldfastError as problem:
        sys.exit(str(problem))
