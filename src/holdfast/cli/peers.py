"""The peers of a broker: from options, and from a file that may be read again."""

from collections.abc import Iterable
from pathlib import Path

from holdfast.model.errors import InputError
from holdfast.net.address import Address, parse_address


def peer_of(text: str) -> tuple[str, Address]:
    name, equals, address = (part.strip() for part in text.partition("="))
    if not name or not equals:
        raise InputError(f"{text!r} is no peer; write it as NAME=ADDRESS, such as b2=tcp://127.0.0.1:7002")
    return name, parse_address(address, to_dial=True)


def peers_from(options: Iterable[str], file: Path | None) -> dict[str, Address]:
    """Those of the options and those of the file; all that is wrong with the file in one InputError."""
    peers: dict[str, Address] = {}
    for each in options:
        name, address = peer_of(each)
        if name in peers:
            raise InputError(f"--peer {each}: there is a peer {name} already, at {peers[name]}; leave one out")
        peers[name] = address
    if file is None:
        return peers
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
        raise InputError(f"--peers {file}: cannot be read: {why.lower()}") from None
    problems = []
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        try:
            name, address = peer_of(line)
        except InputError as problem:
            problems.append(f"line {number}: {problem}")
            continue
        if name in lines:
            problems.append(f"line {number}: {name} stands on line {lines[name]} already")
        elif peers.get(name, address) != address:
            problems.append(f"line {number}: {name} is {peers[name]} by --peer, and {address} here")
        lines.setdefault(name, number)
        peers[name] = address
    if problems:
        raise InputError("\n  ".join([f"--peers {file}:", *problems]))
    return peers
