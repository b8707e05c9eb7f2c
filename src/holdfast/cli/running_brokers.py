"""Brokers that run on this machine and believe everybody, although others can reach them."""

from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path

from holdfast.cli.machine_checks import Finding
from holdfast.model.errors import InputError
from holdfast.net.address import parse_address

_VERBS = ("broker", "replicate")
_IDENTITY = ("--ca", "--broker-key")  # one of these, or brokers are not known by anything
_ADVICE = "prove who brokers are: --ca or --broker-key; `holdfast keys` makes what is needed"


def brokers() -> Iterator[Finding]:
    """One line for each broker of this user that listens beyond the loopback interface without identity."""
    for name, places in exposed(_commands()):
        yield Finding("broker", "warn", f"{name} listens on {places}, and whoever connects is believed", _ADVICE)


def exposed(commands: Iterable[list[str]]) -> Iterator[tuple[str, str]]:
    """Name and places of each command that starts such a broker."""
    for words in commands:
        if not any(verb in words for verb in _VERBS) or not any("holdfast" in word for word in words):
            continue
        if any(value is not None for option in _IDENTITY for value in _values(words, option)):
            continue
        far = [each for each in _values(words, "--listen") if not _is_loopback(each)]
        if far:
            yield next(iter([*_values(words, "--id"), *_values(words, "--faulty")]), "a broker"), ", ".join(far)


def _values(words: list[str], option: str) -> list[str]:
    apart = [after for word, after in pairwise(words) if word == option]
    return apart + [word.partition("=")[2] for word in words if word.startswith(f"{option}=")]


def _is_loopback(address: str) -> bool:
    try:
        host = parse_address(address).host
        return host == "localhost" or ip_address(host).is_loopback
    except (InputError, ValueError):  # a name, which may be anywhere
        return False


def _commands() -> Iterator[list[str]]:
    """The command lines of processes that we may look at; none but on Linux."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield file.read_bytes().decode(errors="replace").split("\0")
        except OSError:  # it has ended, or is not ours
            continue
