"""A named stream of a gateway: what a condition describes, from the broker into a log.

Everything that came while the last write was under way is written with the next one, so the log keeps up with the
network however slow the disk is to sync. An event that is in the log already, because it was delivered again after
a restart, is recognised by its source and number and left out.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_hex

import msgspec

from holdfast.gateway.folder import NAME_CHARACTERS_MAX, read_json, write_json
from holdfast.gateway.messages import FETCH_AIM, StreamState
from holdfast.language.parser import parse
from holdfast.model.errors import InputError, MisuseError
from holdfast.net.client import Client
from holdfast.net.clock import Clock
from holdfast.net.disk_thread import OneThread
from holdfast.net.subscription import Delivery, Subscription
from holdfast.protocol.duplicates import Seen
from holdfast.protocol.settings import ProtocolSettings
from holdfast.store.log import Log, Retention
from holdfast.store.logged import RECORD_BYTES_MAX, Logged, encode_row

FORMAT = 1
_BATCH_MAX = 1_000  # deliveries written at once: past this, larger writes gain nothing
_REMEMBERED_BYTES = 256 * 2**20  # of the log's end whose events are recognised after a restart: read in a second or two
_TRY_AGAIN_S = 1.0  # when the disk refuses a write
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")


def check_name(name: str) -> None:
    """A stream's name is the name of a folder too."""
    if not 0 < len(name) <= NAME_CHARACTERS_MAX or not _NAME_CHARACTERS.issuperset(name) or name[0] in ".-":
        raise InputError(
            f"{name[:40]!r} cannot be the name of a stream; use 1 to {NAME_CHARACTERS_MAX} letters, digits, - _ and ."
        )


def name_for(condition: str) -> str:
    """A name for the stream of a condition that was given none."""
    return f"c-{sha256(str(parse(condition)).encode()).hexdigest()[:12]}"


class GatewayStream:
    def __init__(self, folder: Path, condition: str | None, retention: Retention, clock: Clock) -> None:
        """Open the stream in a folder, or make it; without a condition it has to be there."""
        self.name = folder.name
        self.is_known = False  # to the broker, in this life of the gateway
        self.duplicates = 0
        self.oversized = 0
        self._clock = clock
        self._report: Callable[[str], None] = lambda line: None
        file = folder / "stream.json"
        if not file.exists():
            if condition is None:
                raise MisuseError(f"there is no stream in {folder}")
            if folder.exists() and any(folder.glob("*.events")):
                raise InputError(f"{folder}: holds a log, but stream.json is missing")
            folder.mkdir(parents=True, exist_ok=True)
            write_json(file, {"format": FORMAT, "id": token_hex(16), "condition": str(parse(condition))})
        about = read_json(file, FORMAT, id=str, condition=str)
        self.condition: str = str(parse(about["condition"]))
        if condition is not None and str(parse(condition)) != self.condition:
            raise InputError(
                f"the stream {self.name} has the condition {self.condition}, not {parse(condition)}; use another name"
            )
        self.log = Log(folder, about["id"], retention, clock.now_us())
        settings = ProtocolSettings()
        self._seen = Seen(settings.dedup_window, settings.dedup_sources)
        for source, seq in self.log.recent_ids(_REMEMBERED_BYTES):
            self._seen.first_time(source, seq)
        self._subscription: Subscription | None = None
        self._grown: list[asyncio.Future[None]] = []  # those who wait for more events
        self._disk = OneThread(f"log-{self.name}")  # appends and drops

    def about(self) -> StreamState:
        return StreamState(self.name, self.log.id, self.condition, self.log.oldest, self.log.end)

    def counts(self) -> dict[str, int]:
        log, waits = self.log, self._subscription
        return {
            "events": log.end,
            "oldest": log.oldest,
            "bytes": log.size,
            "duplicates": self.duplicates,
            "oversized": self.oversized,
            "too_slow": 0 if waits is None else waits.dropped,
            "dropped_unread": log.dropped_unread,
            "torn_bytes": log.torn_bytes,
        }

    # Filling -------------------------------------------------------------------------------------

    def subscribe(self, client: Client, report: Callable[[str], None]) -> None:
        self._report = report
        self._subscription = client.subscribe(self.condition, when_full="push-back")

    async def fill(self) -> None:
        """Log what comes, until the client is closed. When the disk is slow, the broker is made to wait."""
        assert self._subscription is not None
        while deliveries := await self._subscription.batch(_BATCH_MAX):
            rows = self._rows(deliveries)
            if rows:
                await self._append(rows)

    def _rows(self, deliveries: list[Delivery]) -> list[bytes]:
        now_us = self._clock.now_us()
        rows = []
        for each in deliveries:
            if not self._seen.first_time(each.source, each.seq):
                self.duplicates += 1
                continue
            attributes = dict(each.publication.attributes)
            row = encode_row(Logged(each.source, each.seq, each.time_us, now_us, each.via, attributes, each.payload))
            if len(row) > RECORD_BYTES_MAX:
                self.oversized += 1
            else:
                rows.append(row)
        return rows

    async def _append(self, rows: list[bytes]) -> None:
        reported, removed = False, self.log.removed
        while True:
            before = self.log.end
            try:
                await self._disk.do(self._append_and_drop, rows)
            except OSError as problem:
                rows = rows[self.log.end - before :]  # a part of them may have been written
                if not reported:
                    self._report(f"stream {self.name}: cannot write: {problem.strerror or problem}; retrying")
                    reported = True
                await asyncio.sleep(_TRY_AGAIN_S)
            else:
                if gone := self.log.removed - removed:
                    self._report(f"stream {self.name}: {gone} events are gone: somebody has removed its files")
                return
            finally:
                self._wake()

    def _append_and_drop(self, rows: list[bytes]) -> None:
        now_us = self._clock.now_us()
        self.log.append(rows, now_us)
        self.log.drop_old(now_us)

    async def drop_old(self) -> None:
        await self._disk.do(self.log.drop_old, self._clock.now_us())

    def close(self) -> None:
        self._disk.close()
        self.log.close()
        self._wake()

    # Reading -------------------------------------------------------------------------------------

    async def fetch(self, lo: int, hi: int) -> list[msgspec.Raw]:
        return await asyncio.to_thread(self.log.read, lo, hi, FETCH_AIM)

    async def grown(self, beyond: int, wait_s: float) -> None:
        """Wait until the log ends beyond an offset, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while self.log.end <= beyond:
                    waiter = asyncio.get_running_loop().create_future()
                    self._grown.append(waiter)
                    await waiter

    def _wake(self) -> None:
        waiters, self._grown = self._grown, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
