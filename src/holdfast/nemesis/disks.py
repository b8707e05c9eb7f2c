"""Disks of brokers that can be full: for each a file system of a few megabytes in memory, where the machine allows it.

To mount one takes root. Elsewhere stores are plain folders, and no disk is ever full: the report then says so.
"""

import errno
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

_DISK_BYTES = 48 * 2**20  # a store of a run and its log, some minutes long
_PIECE = bytes(2**16)


class Disks:
    def __init__(self, folder: Path, brokers: list[str], stores: bool) -> None:
        self.limited = stores
        self._stores = stores
        self._folders = {name: folder / name for name in brokers}
        for each in self._folders.values():
            each.mkdir(parents=True)
            self.limited = self.limited and _mount(each)

    def store_of(self, broker: str) -> Path | None:
        return self._folders[broker] / f"{broker}.db" if self._stores else None

    def fill(self, broker: str) -> None:
        """Until nothing more fits."""
        try:
            with open(self._folders[broker] / "ballast", "wb", buffering=0) as ballast:
                while ballast.write(_PIECE):
                    pass
        except OSError as problem:
            if problem.errno != errno.ENOSPC:
                raise

    def empty(self, broker: str) -> None:
        with suppress(FileNotFoundError):
            (self._folders[broker] / "ballast").unlink()

    def release(self) -> None:
        for each in self._folders.values():
            if each.is_mount():
                subprocess.run(["umount", str(each)], check=False, capture_output=True)


def _mount(folder: Path) -> bool:
    if shutil.which("mount") is None:
        return False
    words = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "holdfast", str(folder)]
    return subprocess.run(words, check=False, capture_output=True).returncode == 0
