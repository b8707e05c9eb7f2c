"""What is wrong with a network file: all of it at once, each problem with its line and key.

Readers and checks add to one `Problems` and go on with what they have; nothing is raised before the end.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

from holdfast.model.errors import InputError
from holdfast.network.limits import PROBLEMS_SHOWN_MAX

KeyPath = tuple[str | int, ...]
"""Where a value stands: names of tables and keys, and positions in lists counted from 0."""


class Place(NamedTuple):
    line: int | None
    by_setting: bool = False  # not from the file but from --set


@dataclass(frozen=True)
class Problem:
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

    def __init__(self, name: str, problems: Iterable[Problem]) -> None:
        self.name = name
        self.problems = tuple(problems)
        shown = [f"  {each}" for each in self.problems[:PROBLEMS_SHOWN_MAX]]
        if len(self.problems) > PROBLEMS_SHOWN_MAX:
            shown.append(f"  and {len(self.problems) - PROBLEMS_SHOWN_MAX:,} more")
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems):,} problems"
        super().__init__("\n".join([f"{name}: {count}", *shown]))

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process boundaries (Spark tasks); the default would rebuild from the message alone.
        return NetworkError, (self.name, self.problems)


class Problems:
    def __init__(self, locate: Callable[[KeyPath], Place]) -> None:
        self._locate = locate
        self._found: dict[Problem, None] = {}  # one mistake may be noticed twice
        self._paths: set[KeyPath] = set()

    def add(self, path: KeyPath, message: str, suggestion: str = "") -> None:
        place = self._locate(path)
        self._found[Problem(dotted(path), message, suggestion, *place)] = None
        self._paths.update(path[:length] for length in range(len(path) + 1))

    def within(self, *path: str | int) -> bool:
        """Whether anything below this key is wrong, so that what follows from it need not be told as well."""
        return path in self._paths

    def __len__(self) -> int:
        return len(self._found)

    def in_order(self) -> list[Problem]:
        """As they stand in the file; what has no line comes first."""
        return sorted(self._found, key=lambda problem: problem.line or 0)


def dotted(path: KeyPath) -> str:
    """`links.loss`, `client.0.broker`: the way `--set` takes it."""
    return ".".join(map(str, path))


def did_you_mean(found: str, known: Iterable[str]) -> str:
    """A suggestion for a misspelt name, or nothing when none is near."""
    near = get_close_matches(found, list(known), n=1)
    return f'did you mean "{near[0]}"?' if near else ""
