"""`holdfast pub`: publish events, given as arguments or on standard input."""

import asyncio
import json
import os
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.connection_options import (
    Authority,
    Broker,
    BusBody,
    Certificate,
    DigestKey,
    Durably,
    HopsOf,
    InOrder,
    Lanes,
    Name,
    PrivateKey,
    Recovery,
    SigningKey,
    Space,
    Token,
    client_of,
    tell_denials,
    telling_connection,
)
from holdfast.cli.json_events import read_event
from holdfast.model.errors import InputError
from holdfast.protocol.hops.settings import HopSettings

if TYPE_CHECKING:
    from holdfast.net.client import Client

_LINE_BYTES_MAX = 4 * 2**20  # an event of the largest allowed size, spelled out as JSON
_READ_BYTES = 64 * 1024  # what a pipe holds
_CHUNKS_MAX = 4  # read ahead of publishing


def run(
    events: Annotated[
        list[str] | None,
        typer.Argument(metavar="[EVENT]...", help="Events as JSON objects; without any, those on standard input."),
    ] = None,
    broker: Broker = None,
    name: Name = None,
    lifetime: Annotated[float | None, typer.Option(help="The lifetime of each event in seconds.")] = None,
    rate: Annotated[float | None, typer.Option(help="At most this many events a second.")] = None,
    certificate: Certificate = None,
    key: PrivateKey = None,
    ca: Authority = None,
    token: Token = None,
    sign: SigningKey = None,
    digest_key: DigestKey = None,
    recovery: Recovery = False,
    hops: HopsOf = HopSettings.hops,
    durable: Durably = False,
    order: InOrder = "none",
    space: Space = "holdfast",
    lanes: Lanes = "",
    body: BusBody = "native",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
) -> None:
    """Publish events, given as arguments or on standard input.

    Each argument, or each line, is a JSON object. What is not an event is reported on stderr with its number, and
    skipped. A timestamp is written as {"$timestamp": "2026-01-31T09:30:00Z"}, as `holdfast sub` does.

    Exit code 0: all are published. 1: some were skipped, or refused by the broker. 2: there is no such broker, or an
    option is wrong.

    \b
    Example:
      holdfast pub '{"symbol": "IBM", "price": 119.5}' --broker tcp://127.0.0.1:7001
      holdfast pub --broker tcp://127.0.0.1:7001 < events.jsonl
    """
    from holdfast.net.event_loop import run as run_loop
    from holdfast.net.setup import finite

    finite(rate, "--rate", "events a second")
    finite(lifetime, "--lifetime", "seconds")
    client = client_of(
        broker,
        name=name,
        certificate=certificate,
        key=key,
        ca=ca,
        token=token,
        sign=sign,
        digest_key=digest_key,
        recovery=recovery,
        order=order,
        hops=hops,
        durable=durable,
        space=space,
        lanes=lanes,
        body=body,
    )
    published, skipped, refused = run_loop(_publish(client, events, lifetime, rate))
    if as_json:
        print(json.dumps({"published": published - refused, "skipped": skipped, "refused": refused}))
    if skipped or refused:
        raise typer.Exit(1)


async def _publish(
    client: "Client", events: list[str] | None, lifetime: float | None, rate: float | None
) -> tuple[int, int, int]:
    """How many were published, how many were no events, and how many of those published the broker has refused."""
    from holdfast.cli.connection_options import stopping

    counted = _CountedLines()
    async with client:
        with telling_connection(client), stopping() as stop:
            publishing = asyncio.create_task(_publish_each(client, events, lifetime, rate, stop, counted))
            stopped = asyncio.create_task(stop.wait())
            await asyncio.wait([publishing, stopped], return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            if stop.is_set():
                publishing.cancel()  # it may wait for a broker that does not come back
            with suppress(asyncio.CancelledError):
                await publishing
        if not stop.is_set():
            await client.flush()
        return counted.published, counted.skipped, tell_denials(client)


@dataclass
class _CountedLines:
    published: int = 0
    skipped: int = 0


async def _publish_each(
    client: "Client",
    events: list[str] | None,
    lifetime: float | None,
    rate: float | None,
    stop: asyncio.Event,
    counted: _CountedLines,
) -> None:
    loop = asyncio.get_running_loop()
    due_s, number = loop.time(), 0
    what, lines = ("line", _lines(stop)) if events is None else ("argument", _given(events))
    async for line in lines:
        number += 1
        try:
            event = _event(line)
            if event is None:
                continue
            if rate is not None:
                due_s = max(due_s + 1 / rate, loop.time())
                if await _stopped_within(stop, due_s - loop.time()):
                    break
            await client.publish(event, lifetime=lifetime)
            counted.published += 1
        except InputError as problem:
            counted.skipped += 1
            print(f"{what} {number}: {problem}", file=sys.stderr)


async def _stopped_within(stop: asyncio.Event, seconds: float) -> bool:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
    return stop.is_set()


def _event(line: bytes) -> dict[str, object] | None:
    """The event of a line; None for an empty one."""
    if not line.strip():
        return None
    if len(line) > _LINE_BYTES_MAX:
        raise InputError(f"more than {_LINE_BYTES_MAX} bytes")
    return read_event(line)


async def _given(events: list[str]) -> AsyncIterator[bytes]:
    for each in events:
        yield each.encode("utf-8", "surrogateescape")


async def _lines(stop: asyncio.Event) -> AsyncIterator[bytes]:
    """Lines of standard input as they come, be it a file, a pipe or a terminal."""
    chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue(_CHUNKS_MAX)
    loop = asyncio.get_running_loop()

    def read() -> None:
        chunk: bytes | OSError = b"-"
        while chunk and not isinstance(chunk, OSError):
            try:
                chunk = os.read(0, _READ_BYTES)
            except OSError as problem:
                chunk = problem
            hand_over = chunks.put(chunk)
            try:
                asyncio.run_coroutine_threadsafe(hand_over, loop).result()
            except (CancelledError, RuntimeError):  # the loop has ended: nobody wants it any more
                hand_over.close()
                return

    threading.Thread(target=read, daemon=True).start()  # no executor: it would be waited for at the end
    stopped = asyncio.create_task(stop.wait())
    rest = b""
    while True:
        coming = asyncio.create_task(chunks.get())
        await asyncio.wait([coming, stopped], return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            coming.cancel()
            return
        chunk = coming.result()
        if isinstance(chunk, OSError):
            raise InputError(f"cannot read standard input: {chunk.strerror}")
        if not chunk:
            stopped.cancel()
            if rest:
                yield rest
            return
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > _LINE_BYTES_MAX:
            rest = rest[: _LINE_BYTES_MAX + 1]  # enough to know that it is too long
        for line in lines:
            if stop.is_set():
                return
            yield line
