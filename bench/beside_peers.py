"""The command line of a bench that runs other systems beside Holdfast: who takes part, what becomes of the results."""

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from bench.command import Words, options, show, told


def asked(name: str, doc: str | None, systems: Mapping[str, Any]) -> argparse.Namespace:
    words = options(name, doc)
    words.add_argument("--rounds", type=int, default=5)
    words.add_argument("--only", action="append", choices=sorted(systems), help="leave out the others")
    given = words.parse_args()
    if given.save and (given.only or given.rounds < 5):
        words.error("--save needs the whole run: leave out --only, and at least 5 rounds")
    return given


def taking_part(given: argparse.Namespace, systems: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The systems that are here and asked for; and those that are not here, with the reason."""
    left_out = [f"{name}: {why}" for name, kind in systems.items() if (why := kind.missing())]
    able = [name for name, kind in systems.items() if not kind.missing() and name in (given.only or systems)]
    return able, left_out


def concluded(given: argparse.Namespace, data: Mapping[str, Any], shown: Words, section: Words) -> int:
    """Print and perhaps save them; the exit code says whether all checks hold."""
    if given.save and data["left_out"]:
        show(given, data, shown)
        print("not saved, because something was left out", file=sys.stderr)
        return 1
    told(given, data, section, shown)
    return 0 if all(each["holds"] for each in data["checks"]) else 1
