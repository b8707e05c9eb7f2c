"""`holdfast gateway`: keep events in a log that can be read again, and publish batches once."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.connection_options import (
    DEFAULT_BROKER,
    Authority,
    Broker,
    BusBody,
    Certificate,
    Lanes,
    PrivateKey,
    Space,
    Token,
)
from holdfast.cli.flags import flag
from holdfast.gateway.gateway import GatewaySettings
from holdfast.model.errors import InputError
from holdfast.store.log import Retention

_DEFAULT_LISTEN = "tcp://127.0.0.1:7100"


def run(
    log: Annotated[Path, flag(GatewaySettings, "folder", metavar="DIR")],
    broker: Broker = None,
    condition: Annotated[
        str | None, typer.Option(metavar="CONDITION", help="The condition of the stream `events`.")
    ] = None,
    stream: Annotated[
        list[str] | None, typer.Option(metavar="NAME=CONDITION", help="A stream with a name; may be repeated.")
    ] = None,
    listen: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help=f"tcp:// or tls://; may be repeated. [default: {_DEFAULT_LISTEN}]"),
    ] = None,
    name: Annotated[str | None, flag(GatewaySettings, "name")] = None,
    keep_mb: Annotated[float, flag(Retention, "keep_bytes", unit="megabytes")] = Retention.keep_bytes / 2**20,
    keep_hours: Annotated[float, flag(Retention, "keep_s", unit="hours")] = Retention.keep_s / 3_600,
    drop_acknowledged: Annotated[
        bool, flag(Retention, "drop_acknowledged", "--drop-acknowledged")
    ] = Retention.drop_acknowledged,
    streams_max: Annotated[int, flag(GatewaySettings, "streams_max")] = GatewaySettings.streams_max,
    outgoing_mb: Annotated[
        float, flag(GatewaySettings, "ledger_bytes", unit="megabytes")
    ] = GatewaySettings.ledger_bytes / 2**20,
    advertise: Annotated[
        list[str] | None,
        flag(GatewaySettings, "advertise", metavar="CONDITION"),
    ] = None,
    certificate: Certificate = None,
    key: PrivateKey = None,
    ca: Authority = None,
    token: Token = None,
    space: Space = "holdfast",
    lanes: Lanes = "",
    body: BusBody = "native",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON objects.")] = False,
) -> None:
    """Log events for readers who come later, publish batches once.

    Runs until Ctrl-C or SIGTERM. A stream logs the events that match a condition. Readers, such as
    `spark.readStream.format("holdfast")`, fetch any range of it again, exactly, until retention drops it. Existing
    streams of the folder continue. Prints one line when it is ready and one with its counters when it has stopped.

    \b
    Example:
      holdfast gateway --broker tcp://127.0.0.1:7001 --log gw --condition "symbol = 'IBM'"
      holdfast gateway --log gw --stream "cheap=price < 10" --stream "big=volume > 1000000" --keep-mb 4096
      holdfast gateway --broker nats://127.0.0.1:4222 --space plant --log gw --condition "temp > 30"
    """
    from holdfast.gateway.dialling import BusSpace, addresses_of
    from holdfast.net.address import parse_address
    from holdfast.net.event_loop import run as run_loop
    from holdfast.net.tls import TlsFiles

    _check_numbers(keep_mb, keep_hours, outgoing_mb)
    settings = GatewaySettings(
        folder=log,
        brokers=addresses_of(broker or [DEFAULT_BROKER], to_dial=True),
        listen=tuple(parse_address(each) for each in listen or [_DEFAULT_LISTEN]),
        streams=_streams(condition, stream or []),
        name=name,
        retention=Retention(int(keep_mb * 2**20), keep_hours * 3_600, drop_acknowledged=drop_acknowledged),
        streams_max=streams_max,
        ledger_bytes=int(outgoing_mb * 2**20),
        advertise=tuple(advertise or ()),
        tls=TlsFiles(certificate, key, ca),
        token=token,
        bus=BusSpace(space, lanes, body),
    )
    run_loop(_serve(settings, as_json))


def _check_numbers(keep_mb: float, keep_hours: float, outgoing_mb: float) -> None:
    from holdfast.net.setup import finite

    finite(keep_mb, "--keep-mb", "megabytes")
    finite(keep_hours, "--keep-hours", "hours")
    finite(outgoing_mb, "--outgoing-mb", "megabytes")


def _streams(condition: str | None, named: list[str]) -> dict[str, str]:
    found = {} if condition is None else {"events": condition}
    for text in named:
        name, equals, rest = text.partition("=")
        if not name.strip() or not equals:
            raise InputError(f"""--stream {text}: write it as NAME=CONDITION, such as "cheap=price < 10\"""")
        if name.strip() in found:
            raise InputError(f"--stream {text}: there is a stream {name.strip()} already")
        found[name.strip()] = rest
    return found


async def _serve(settings: GatewaySettings, as_json: bool) -> None:
    from holdfast.cli.connection_options import stopping
    from holdfast.gateway.gateway import Gateway

    def report(line: str) -> None:
        print(f"gateway: {line}", file=sys.stderr, flush=True)

    gateway = Gateway(settings, report)
    with stopping() as stop:
        await gateway.start()
        places = [str(each) for each in gateway.listening]
        streams = {each.name: each.log.end for each in gateway.streams.values()}
        if as_json:
            print(json.dumps({"ready": gateway.name, "listen": places, "streams": streams}), flush=True)
        else:
            known = ", ".join(f"{name} ({count:,} events)" for name, count in streams.items()) or "no streams yet"
            print(f"{gateway.name} ready on {', '.join(places)}: {known}", flush=True)
        await stop.wait()
        counts = gateway.counts()
    await gateway.stop()
    if as_json:
        print(json.dumps({"stopped": gateway.name, **counts}), flush=True)
    else:
        print(
            f"{gateway.name} stopped: {', '.join(f'{key} {count:,}' for key, count in counts.items() if count)}",
            flush=True,
        )
