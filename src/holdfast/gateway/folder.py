"""The folder of a gateway: who it is, that only one uses it at a time, and where that one listens.

    LOG/gateway.json         its name, and where the numbers of its publications begin
    LOG/streams/NAME/        stream.json (its condition) and the files of its log
    LOG/ledger.sqlite        what is to be published
    LOG/lock, running.json   held and written while a gateway runs

The lock is the operating system's and goes with the process, however it ends.
"""

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from time import sleep
from typing import Any

from holdfast.model.errors import InputError
from holdfast.net.address import Address
from holdfast.store.segment import sync_folder

FORMAT = 1
NAME_CHARACTERS_MAX = 200  # of a gateway or stream: with what is added to it, still the name of a node or a file
_LOCK_TRIES, _LOCK_S = 5, 0.05


@dataclass(frozen=True)
class Identity:
    name: str
    first_seq: int  # the number of its first publication; above all that an earlier gateway of this name has used


class GatewayFolder:
    """The folder, locked until it is closed."""

    def __init__(self, path: Path, name: str | None, now_us: int) -> None:
        self.path = path
        try:
            (path / "streams").mkdir(parents=True, exist_ok=True)
            self._lock = _lock(path)
        except OSError as problem:
            raise InputError(f"{path}: cannot be used as a log ({problem.strerror or problem})") from None
        try:
            self.identity = _identify(path, name, now_us)
        except BaseException:
            os.close(self._lock)
            raise

    @property
    def ledger(self) -> Path:
        return self.path / "ledger.sqlite"

    def stream(self, name: str) -> Path:
        return self.path / "streams" / name

    def streams(self) -> list[Path]:
        return sorted(each for each in (self.path / "streams").iterdir() if (each / "stream.json").exists())

    def write_address(self, listening: tuple[Address, ...]) -> None:
        """Note where we listen, for programs that know only the folder."""
        write_json(self.path / "running.json", {"pid": os.getpid(), "listen": [str(each) for each in listening]})

    def close(self) -> None:
        (self.path / "running.json").unlink(missing_ok=True)
        os.close(self._lock)


def running_at(path: Path) -> str | None:
    """The address of the gateway that uses this folder now; None when there is none, or it is not ready yet."""
    try:
        handle = os.open(path / "lock", os.O_RDWR)
    except OSError:
        return None
    try:
        if _take(handle, fcntl.LOCK_SH):
            return None  # nobody has it
    finally:
        os.close(handle)
    running = _running(path)
    return running["listen"][0] if running else None


def _lock(path: Path) -> int:
    handle = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    for _ in range(_LOCK_TRIES):
        if _take(handle, fcntl.LOCK_EX):
            return handle
        sleep(_LOCK_S)  # somebody may only be looking whether a gateway is running
    os.close(handle)
    running = _running(path)
    who = f"process {running['pid']} at {', '.join(running['listen'])}" if running else "another process"
    raise InputError(f"{path}: a gateway uses this folder already ({who})")


def _take(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _running(path: Path) -> dict[str, Any]:
    try:
        found = json.loads((path / "running.json").read_text())
        listen = [str(each) for each in found["listen"]]
        return {"pid": int(found["pid"]), "listen": listen} if listen else {}
    except (OSError, ValueError, LookupError, TypeError):
        return {}


def _identify(path: Path, name: str | None, now_us: int) -> Identity:
    file = path / "gateway.json"
    if name is not None and not 0 < len(name) <= NAME_CHARACTERS_MAX:
        raise InputError(f"a gateway's name has 1 to {NAME_CHARACTERS_MAX} characters")
    if not file.exists():
        made = Identity(name or f"gateway-{token_hex(4)}", now_us)
        write_json(file, {"format": FORMAT, "name": made.name, "first_seq": made.first_seq})
        return made
    found = read_json(file, FORMAT, name=str, first_seq=int)
    if name not in (None, found["name"]):
        raise InputError(f"{path}: this is the folder of the gateway {found['name']}, not {name}; name another folder")
    return Identity(found["name"], found["first_seq"])


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """The whole file or none of it, on disk."""
    unfinished = path.with_suffix(".unfinished")
    with open(unfinished, "w") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)
    sync_folder(path.parent)


def read_json(path: Path, version: int, **expected: type) -> dict[str, Any]:
    """A file that `write_json` wrote, with these keys; an InputError when it is another version's, or damaged."""
    try:
        found = json.loads(path.read_text())
        if isinstance(found, dict) and isinstance(found.get("format"), int) and found["format"] > version:
            raise InputError(
                f"{path}: written in format {found['format']}, this version reads {version}; use a newer Holdfast"
            )
        if found["format"] == version and all(type(found[key]) is kind for key, kind in expected.items()):
            return dict(found)
    except (OSError, ValueError, LookupError, TypeError):
        pass
    raise InputError(f"{path}: damaged, or not written by a gateway")
