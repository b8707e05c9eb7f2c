"""`holdfast keep`: store events of a bus, and answer for publishers that do not any more."""

import json
from pathlib import Path
from typing import Annotated

import typer

from holdfast.carriers.connecting import keeper_of
from holdfast.carriers.keeper import Keeper
from holdfast.cli.connection_options import BusBody, Lanes, Space
from holdfast.net.setup import finite


def run(
    address: Annotated[str, typer.Argument(help="The address of a bus, such as nats://127.0.0.1:4222.")],
    condition: Annotated[str, typer.Argument(help="Which events to store; TRUE is all of the space.")] = "TRUE",
    store: Annotated[Path, typer.Option(metavar="FILE", help="Where they are stored.")] = Path("kept.db"),
    keep_mb: Annotated[float, typer.Option(help="Megabytes that it keeps; the oldest are dropped beyond that.")] = 1024,
    space: Space = "holdfast",
    lanes: Lanes = "",
    body: BusBody = "native",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON objects.")] = False,
) -> None:
    """Store events of a bus, and send them to who missed them.

    It stores those that the condition describes. Runs until Ctrl-C or SIGTERM. It answers for publishers that are
    silent or dead; a publisher that lives answers itself. Prints one line when it is ready and one with its
    counters when it has stopped.

    \b
    Example:
      holdfast keep nats://127.0.0.1:4222 "TRUE" --space plant --store plant.db
    """
    from holdfast.net.event_loop import run as run_loop

    finite(keep_mb, "--keep-mb", "megabytes")
    run_loop(_serve(address, condition, store, int(keep_mb * 2**20), (space, lanes, body), as_json))


async def _serve(
    address: str, condition: str, store: Path, keep_bytes: int, bus: tuple[str, str, BusBody], as_json: bool
) -> None:
    from holdfast.cli.connection_options import stopping

    keeper = keeper_of(
        address, condition, store, keep_bytes, *bus, lambda text: typer.echo(f"keeper: {text}", err=True)
    )
    with stopping() as stop:
        await keeper.start()
        _say(as_json, "ready", keeper)
        await stop.wait()
    _say(as_json, "stopped", keeper)
    await keeper.stop()


def _say(as_json: bool, what: str, keeper: Keeper) -> None:
    counts = {"kept": len(keeper), "stored": keeper.stored, "answered": keeper.answered}
    if as_json:
        print(json.dumps({"state": what, **counts}), flush=True)
    else:
        print(f"keeper {what}: {', '.join(f'{name} {count:,}' for name, count in counts.items())}", flush=True)
