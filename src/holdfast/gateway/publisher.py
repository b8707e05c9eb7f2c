"""From a gateway's ledger to the broker: events leave in the order in which they were committed.

A chunk counts as published when the broker has handled all of it. If the connection breaks before, or the gateway
crashes, the chunk is sent again with the same sequence numbers, under the same name: to subscribers these are the same
events, and who has them already does not get them twice.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random

from holdfast.gateway.dialling import Upstream
from holdfast.gateway.folder import Identity
from holdfast.gateway.ledger import CommitLedger
from holdfast.gateway.messages import decode_outgoing
from holdfast.model.errors import TransportError
from holdfast.net.backoff import Backoff
from holdfast.net.client import Client
from holdfast.net.disk_thread import OneThread

_IDLE_S = 5.0  # without anything to publish the connection is given up, so that a gateway which only reads has one
_IDLE_BUS_S = 60.0  # a bus keeps nothing: as long as this, who missed events may ask for them


class LedgerPublisher:
    def __init__(
        self,
        identity: Identity,
        upstream: Upstream,
        ledger: CommitLedger,
        disk: OneThread,
        report: Callable[[str], None],
        advertise: Sequence[str] = (),
    ) -> None:
        self.sent_again = 0  # chunks whose connection broke before the broker had confirmed them
        self._identity = identity
        self._upstream = upstream
        self._idle_s = _IDLE_BUS_S if upstream.is_bus else _IDLE_S
        self._ledger = ledger
        self._disk = disk
        self._report = report
        self._advertise = advertise
        self._work = asyncio.Event()

    def wake(self) -> None:
        """Something was committed."""
        self._work.set()

    async def run(self) -> None:
        backoff = Backoff(Random(f"{self._identity.name}/publisher"))
        reported = ""
        while True:
            try:
                await self._some_work()
                await self._publish_all()
                backoff.reset()
                reported = ""
            except (TransportError, sqlite3.Error) as problem:  # the broker is away, or the disk is full
                if str(problem) != reported:
                    reported = str(problem)
                    self._report(f"publishing: {reported} (retrying)")
                await asyncio.sleep(backoff.delay_s())

    async def _some_work(self) -> None:
        self._work.clear()  # before the look, so that what is committed during it is not missed
        while await self._first() is None:
            await self._work.wait()
            self._work.clear()

    async def _first(self) -> tuple[int, bytes] | None:
        return await self._disk.do(self._ledger.first_chunk)

    async def _publish_all(self) -> None:
        """With one connection: what is there, and what comes while it is open."""
        chunk = await self._first()
        if chunk is None:
            return
        first_seq = self._identity.first_seq + chunk[0]
        async with self._upstream.client(self._identity.name, first_seq) as client:
            for condition in self._advertise:
                client.advertise(condition)
            while chunk is not None:
                await self._publish(client, *chunk)
                chunk = await self._next()

    async def _publish(self, client: Client, first: int, encoded: bytes) -> None:
        connections = client.connections
        for seq, row in enumerate(decode_outgoing(encoded), self._identity.first_seq + first):
            lifetime = None if row.lifetime_us is None else row.lifetime_us / 1e6
            given = await client.publish(row.attributes, row.payload, lifetime)
            assert given == seq, "an event would get another number when it is sent again"
        await client.flush()
        if client.connections != connections:
            self.sent_again += 1
            raise TransportError("the connection broke before all had arrived")
        await self._disk.do(self._ledger.on_published, first)

    async def _next(self) -> tuple[int, bytes] | None:
        self._work.clear()
        chunk = await self._first()
        if chunk is None and self._advertise:  # subscriptions find their way to us only while we are there
            await self._work.wait()
        elif chunk is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._idle_s):
                    await self._work.wait()
        return chunk or await self._first()
