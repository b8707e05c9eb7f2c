"""`holdfast check`: read a network file and say what it describes, or everything that is wrong with it."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from holdfast.network.document import settings_from
from holdfast.network.load import load
from holdfast.network.problems import NetworkError
from holdfast.network.summary import Summary, summarize


def run(
    path: Annotated[str, typer.Argument(metavar="FILE", help="A network file.")],
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one value.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Describe a network file, or list its errors.

    Exit code 0: it can be run. 2: it cannot; every problem is listed with its line and key.

    \b
    Example:
      holdfast check net.toml --set links.loss=0.05
    """
    try:
        summary = summarize(load(path, settings_from(settings or ())))
    except NetworkError as error:
        if not as_json:
            raise
        print(json.dumps({"ok": False, "problems": [asdict(each) for each in error.problems]}))
        raise typer.Exit(2) from None
    print(json.dumps({"ok": True} | asdict(summary)) if as_json else _table(summary))


def _table(found: Summary) -> str:
    about = "" if found.distances_exact else "about "
    listed = found.workload == "none" and found.publications_per_s  # by the clients themselves
    rate = "as the file says" if found.publications_per_s is None else f"{found.publications_per_s:,.6g} a second"
    rows = [
        ("network", f"{found.name}, {found.duration_s:,g} s, seed {found.seed}"),
        ("routing", found.routing),
        ("brokers", f"{found.brokers:,}"),
        ("links", f"{found.links:,}"),
        ("distance", f"{about}{found.mean_distance:.2f} links on average, at most {found.diameter}"),
        ("clients", f"{found.clients:,}: {found.publishers:,} publish, {found.subscribers:,} subscribe"),
        ("subscriptions", f"{found.subscriptions:,}"),
        ("publications", f"{rate} ({'spelled out' if listed else found.workload})"),
        ("faults", f"{found.faults:,}"),
    ]
    return "\n".join(f"{name:14}{value}" for name, value in [*rows, *(("warning", each) for each in found.warnings)])
