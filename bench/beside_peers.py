"""The command line of a bench that runs other systems beside Holdfast: who takes part, what becomes of the results."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.page import put_section
from bench.results import save


def asked(name: str, doc: str | None, systems: Mapping[str, Any]) -> argparse.Namespace:
    options = argparse.ArgumentParser(prog=f"bench.{name}", description=(doc or "").splitlines()[0])
    options.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--only", action="append", choices=sorted(systems), help="leave out the others")
    options.add_argument("--save", action="store_true", help="keep the results and put them into docs/benchmarks.md")
    given = options.parse_args()
    if given.save and (given.only or given.rounds < 5):
        options.error("--save needs the whole run: leave out --only, and at least 5 rounds")
    return given


def taking_part(given: argparse.Namespace, systems: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The systems that are here and asked for; and those that are not here, with the reason."""
    left_out = [f"{name}: {why}" for name, kind in systems.items() if (why := kind.missing())]
    able = [name for name, kind in systems.items() if not kind.missing() and name in (given.only or systems)]
    return able, left_out


def concluded(
    given: argparse.Namespace,
    name: str,
    data: Mapping[str, Any],
    shown: Callable[[Any], str],
    section: Callable[[Any], str],
    saved: Path,
) -> int:
    """Print and perhaps save them; the exit code says whether all checks hold."""
    print(json.dumps(data, indent=2) if given.json else shown(data))
    if given.save and data["left_out"]:
        print("not saved, because something was left out", file=sys.stderr)
        return 1
    if given.save:
        save(dict(data), saved)
        put_section(name, section(data))
    return 0 if all(each["holds"] for each in data["checks"]) else 1
