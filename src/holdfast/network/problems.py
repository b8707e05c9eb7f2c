"""What is wrong with a network file: all of it at once, each problem with its line and key.

Readers and checks add to one `Problems` and go on with what they have; nothing is raised before the end.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.model.errors import InputError
from holdfast.network.limits import PROBLEMS_MAX, PROBLEMS_SHOWN_MAX

KeyPath = tuple[str | int, ...]
"""Where a value stands: names of tables and keys, and positions in lists counted from 0."""


class Place(NamedTuple):
    line: int | None
    by_setting: bool = False  # not from the file but from --set


@dataclass(frozen=True)
class FileProblem:
    key: str
    message: str
    suggestion: str = ""
    line: int | None = None
    by_setting: bool = False

    def __str__(self) -> str:
        where = "--set" if self.by_setting else f"line {self.line}" if self.line else ""
        place = ", ".join(part for part in (where, self.key) if part)
        text = f"{place}: {self.message}" if place else self.message
        return f"{text}; {self.suggestion}" if self.suggestion else text


class NetworkError(InputError):
    """A network file that is not accepted, with all its problems."""

    def __init__(self, name: str, problems: Iterable[FileProblem], more: int = 0) -> None:
        self.name = name
        self.problems = tuple(problems)
        self.more = more  # not kept, only counted
        count = len(self.problems) + more
        lines = [f"{name}: 1 problem" if count == 1 else f"{name}: {count:,} problems"]
        lines += [f"  {each}" for each in self.problems[:PROBLEMS_SHOWN_MAX]]
        if count > PROBLEMS_SHOWN_MAX:
            lines.append(f"  and {count - PROBLEMS_SHOWN_MAX:,} more")
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process boundaries (Spark tasks); the default would rebuild from the message alone.
        return NetworkError, (self.name, self.problems, self.more)


class Problems:
    def __init__(self, locate: Callable[[KeyPath], Place]) -> None:
        self._locate = locate
        self._found: dict[FileProblem, None] = {}  # one mistake may be noticed twice
        self._paths: set[KeyPath] = set()
        self.warnings: list[str] = []
        self.more = 0

    def add(self, path: KeyPath, message: str, suggestion: str = "") -> None:
        if len(self._found) < PROBLEMS_MAX:
            self._found[FileProblem(dotted(path), message, suggestion, *self._locate(path))] = None
        else:
            self.more += 1
        self._paths.update(path[:length] for length in range(len(path) + 1))

    def warn(self, path: KeyPath, message: str) -> None:
        """Something that is allowed but probably not meant."""
        if len(self.warnings) < PROBLEMS_MAX:
            self.warnings.append(f"{dotted(path)}: {message}")

    def within(self, *path: str | int) -> bool:
        """Whether anything below this key is wrong, so that what follows from it need not be told as well."""
        return path in self._paths

    def __len__(self) -> int:
        return len(self._found)

    def of_row(self, path: KeyPath, row: str) -> "Problems":
        """The same, for a row of a file that the key names."""
        return _OfRow(self, path, row)

    def in_order(self) -> list[FileProblem]:
        """As they stand in the file; what has no line comes first."""
        return sorted(self._found, key=lambda problem: problem.line or 0)


class _OfRow(Problems):
    def __init__(self, outer: Problems, path: KeyPath, row: str) -> None:
        super().__init__(outer._locate)
        self._outer, self._path, self._row = outer, path, row

    def add(self, path: KeyPath, message: str, suggestion: str = "") -> None:
        super().add(path, message)  # so that `within` knows
        self._outer.add(self._path, f"{', '.join(filter(None, (self._row, dotted(path))))}: {message}", suggestion)

    def warn(self, path: KeyPath, message: str) -> None:
        self._outer.warn(self._path, f"{self._row}: {message}")


def dotted(path: KeyPath) -> str:
    """`links.loss`, `client.0.broker`: the way `--set` takes it."""
    return ".".join(map(str, path))
