"""The command line of a bench: what every one of them takes, and what becomes of what it found."""

import argparse
import json
from collections.abc import Callable, Mapping
from typing import Any

from bench.page import put_section
from bench.results import load, save, saved_at

Words = Callable[[Any], str]


def options(name: str, doc: str | None) -> argparse.ArgumentParser:
    words = argparse.ArgumentParser(prog=f"bench.{name}", description=(doc or "").splitlines()[0])
    words.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    words.add_argument("--save", action="store_true", help="keep the results and put them into docs/benchmarks.md")
    return words


def told(given: argparse.Namespace, data: Mapping[str, Any], section: Words, shown: Words | None = None) -> None:
    """Save it and write its section of the page, if asked to; print it: the section, unless there is a shorter form."""
    if given.save:
        keep(data, section)
    show(given, data, shown or section)


def show(given: argparse.Namespace, data: Mapping[str, Any], shown: Words) -> None:
    print(json.dumps(data) if given.json else shown(data))


def redraw(name: str, section: Words) -> None:
    """The section of the page anew from what was saved."""
    saved = load(saved_at(name))
    if saved is None:
        raise SystemExit("there are no saved results; make them with --save")
    put_section(name, section(saved))


def keep(data: Mapping[str, Any], section: Words) -> None:
    save(dict(data), saved_at(data["benchmark"]))
    put_section(data["benchmark"], section(data))
