"""`holdfast sub`: print the events that a condition describes."""

import asyncio
import json
import sys
import warnings
from base64 import b64encode
from typing import TYPE_CHECKING, Annotated, Any

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
    SignersFile,
    Space,
    Token,
    client_of,
    tell_denials,
    telling_connection,
)
from holdfast.cli.json_events import event_for_json, timestamp_for_json
from holdfast.cli.slow_output import SlowOutput
from holdfast.model.errors import HoldfastWarning, InputError
from holdfast.protocol.hops.settings import HopSettings

if TYPE_CHECKING:
    from holdfast.net.client import Client
    from holdfast.net.subscription import Delivery, Subscription


def run(
    condition: Annotated[str, typer.Argument(help="A SQL condition.")],
    broker: Broker = None,
    name: Name = None,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after this many events.")] = None,
    timeout: Annotated[float | None, typer.Option(min=0, help="Stop after this many seconds.")] = None,
    certificate: Certificate = None,
    key: PrivateKey = None,
    ca: Authority = None,
    token: Token = None,
    verify: SignersFile = None,
    digest_key: DigestKey = None,
    recovery: Recovery = False,
    hops: HopsOf = HopSettings.hops,
    durable: Durably = False,
    order: InOrder = "none",
    space: Space = "holdfast",
    lanes: Lanes = "",
    body: BusBody = "native",
    group: Annotated[str, typer.Option(help="Share it: each event goes to one of all in this group.")] = "",
    last: Annotated[
        int | None, typer.Option(min=1, help="Begin with the last so many events that the broker has kept.")
    ] = None,
    since: Annotated[
        float | None, typer.Option(min=0, help="Begin with what it has kept of the last so many seconds.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each event with its source, sequence number, delay and payload.")
    ] = False,
) -> None:
    """Print the events that match a condition. One JSON object a line, until Ctrl-C.

    A timestamp is printed as {"$timestamp": "2026-01-31T09:30:00Z"}, which `holdfast pub` reads.

    Exit code 0: done. 1: --timeout was over before --count events arrived. 2: the condition is wrong, or there is
    no such broker.

    \b
    Example:
      holdfast sub "symbol = 'IBM' AND price < 120" --broker tcp://127.0.0.1:7001 --count 10
    """
    from holdfast.language.parser import parse
    from holdfast.net.event_loop import run as run_loop
    from holdfast.net.setup import finite

    parsed = parse(condition)  # a wrong condition needs no connection
    if parsed.warnings:
        print(f"warning: {'; '.join(parsed.warnings)}", file=sys.stderr, flush=True)
    finite(timeout or None, "--timeout", "seconds")
    finite(since or None, "--since", "seconds")
    client = client_of(
        broker,
        name=name,
        certificate=certificate,
        key=key,
        ca=ca,
        token=token,
        verify=verify,
        digest_key=digest_key,
        recovery=recovery,
        order=order,
        hops=hops,
        durable=durable,
        space=space,
        lanes=lanes,
        body=body,
    )
    wanted = {"group": group, "last": last, "since": since}
    if not run_loop(_subscribe(client, condition, count, timeout, as_json, durable, wanted)):
        raise typer.Exit(1)


async def _subscribe(
    client: "Client",
    condition: str,
    count: int | None,
    timeout: float | None,
    as_json: bool,
    durable: bool,
    wanted: dict[str, Any],
) -> bool:
    """Whether as many came as were asked for."""
    from holdfast.cli.connection_options import stopping

    async with client:
        with telling_connection(client), stopping() as stop:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", HoldfastWarning)  # it was told in a line of its own
                subscription = client.subscribe(condition, **wanted)
            await client.flush()
            print(f"subscribed at {client.broker}", file=sys.stderr, flush=True)
            tell_denials(client)
            printing = asyncio.create_task(_print(subscription, count, as_json))
            stopped = asyncio.create_task(stop.wait())
            await asyncio.wait([printing, stopped], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            complete = printing.done() or count is None or stop.is_set()
            if not durable:  # who comes back under this name goes on where we are
                subscription.close()
            printing.cancel()
            stopped.cancel()
            problem, _ = await asyncio.gather(printing, stopped, return_exceptions=True)
            if isinstance(problem, Exception):
                raise problem
            losses = client.losses().take()
            lost = sum(each.last - each.first + 1 for each in losses if each.last)
            if lost:
                print(f"{lost:,} events could not be recovered", file=sys.stderr)
            for each in losses:
                if not each.last and not (subscription.dropped and "too slow" in each.reason):
                    count_lost = f"{each.events:,} events were" if each.events else "events may have been"
                    seconds = (each.until_us - each.since_us) / 1e6
                    print(f"{count_lost} lost within {seconds:.1f} s: {each.reason}", file=sys.stderr)
            if subscription.dropped:
                print(f"{subscription.dropped:,} events were dropped: printing is too slow", file=sys.stderr)
    return complete


async def _print(subscription: "Subscription", count: int | None, as_json: bool) -> None:
    output, left = SlowOutput(), count
    while left is None or left > 0:
        deliveries = await subscription.batch(1_000 if left is None else left)
        if not deliveries:
            return
        try:
            await output.write("".join(f"{_line(each, as_json)}\n" for each in deliveries).encode())
        except BrokenPipeError:  # whoever read our output has enough
            return
        except OSError as problem:
            raise InputError(f"cannot write to standard output: {problem.strerror}") from None
        if left is not None:
            left -= len(deliveries)


def _line(delivery: "Delivery", as_json: bool) -> str:
    event = event_for_json(delivery.publication.attributes)
    if not as_json:
        return json.dumps(event, default=timestamp_for_json)
    line = {
        "event": event,
        "source": delivery.source,
        "seq": delivery.seq,
        "via": delivery.via,
        "delay": delivery.delay,
        "payload": b64encode(delivery.payload).decode(),
    }
    return json.dumps(line, default=timestamp_for_json)
