"""Where the verbs come from: our own files, and entry points of other installed packages.

A package brings a verb with an entry point in the group `holdfast.verbs`: its name is the verb, its object the function
to run. Its docstring and its annotations are the help and the options, as with ours. Our own verbs cannot be replaced.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import EntryPoints, entry_points
from typing import Any

from holdfast.model.errors import InputError

GROUP = "holdfast.verbs"
# Verbs that we know of and do not have ourselves, with the package that brings each.
ELSEWHERE = {"reproduce": "holdfast-papers"}

Verb = Callable[..., Any]


def wanted(words: Sequence[str], ours: Sequence[str]) -> dict[str, Verb]:
    """The verb that was asked for; all of them for help, and when there is no such verb."""
    asked = words[0] if words else ""
    if asked in ours:
        return {asked: _own(asked)}
    others = entry_points(group=GROUP)
    if asked in others.names:
        return {asked: others[asked].load()}
    if asked in ELSEWHERE:
        package = ELSEWHERE[asked]
        raise InputError(f"`holdfast {asked}` comes with the package {package}; add it with: pip install {package}")
    return {each: _own(each) for each in ours} | _loaded(others, ours)


def _own(verb: str) -> Verb:
    run: Verb = import_module(f"holdfast.cli.{verb}").run
    return run


def _loaded(others: EntryPoints, ours: Sequence[str]) -> dict[str, Verb]:
    return {each.name: each.load() for each in others if each.name not in ours}
