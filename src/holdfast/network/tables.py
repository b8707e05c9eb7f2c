"""A table of the network file: which keys it takes, and how it is read.

A table knows its keys, each with its shape, default, meaning and the reason for the default; the manual is printed
from the same lines. In some tables the value of `kind` decides which further keys there are.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from holdfast.model.settings import GoesWith, in_microseconds
from holdfast.model.validation import did_you_mean
from holdfast.network.problems import KeyPath, Problems
from holdfast.network.shapes import BAD, Shape, wrong


@dataclass(frozen=True)
class Key:
    name: str
    shape: Shape
    meaning: str
    default: object = None  # as the file would spell it; None leaves the value out
    default_words: str = ""  # where the default is not one value
    required: bool = False
    goes_with: GoesWith | None = None  # without one of these values of that key it has no effect
    reason: str = ""  # for the default, where the meaning does not give it
    formerly: str = ""  # an older name, which still works

    @cached_property
    def field(self) -> str:
        """Its name among the values that were read, where times are microseconds and their names say so."""
        micro = getattr(getattr(self.shape, "of", self.shape), "micro", 0)
        return in_microseconds(self.name) if micro else self.name


Values = dict[str, Any]


@dataclass(frozen=True)
class Table:
    name: str  # as in the file: links, [client]
    about: str
    keys: tuple[Key, ...]
    kinds: Mapping[str, tuple[Key, ...]] = field(default_factory=dict)
    on_top_of: "Table | None" = None  # says what holds where this one is silent

    def words(self) -> str:
        return "a table"

    def read(self, found: Any, path: KeyPath, problems: Problems) -> Any:
        return self.values(found, path, problems)

    def values(self, found: Any, path: KeyPath, problems: Problems, only_own: bool = False) -> Values:
        """The table's values; keys that are left out get their default, unless only the table's own are asked for."""
        there = isinstance(found, Mapping)
        if not there:
            wrong(self, found, path, problems, f"write it as [{self.name}]")
            found = {}
        keys = self._keys_for(found)
        former = {key.formerly: name for name, key in keys.items() if key.formerly in found and name not in found}
        for name in found:
            if name in former:
                problems.warn((*path, name), f"this key is called {former[name]} now")
            elif name not in keys:
                self._unknown(name, keys, found, path, problems)
        values: Values = {}
        for name, key in keys.items():
            written = key.formerly if key.formerly in former else name
            value = BAD
            if written in found:
                value = key.shape.read(found[written], (*path, written), problems)
            elif key.required and there:
                problems.add(path, f'"{name}" is missing, expected {key.shape.words()}')
            if value is BAD and not only_own:
                value = key.shape.read(key.default, (*path, name), problems) if key.default is not None else None
            if value is not BAD:
                values[key.field] = value
        self._warn_of_idle_keys(found, values, path, problems)
        return values

    def _warn_of_idle_keys(self, found: Mapping[str, Any], values: Values, path: KeyPath, problems: Problems) -> None:
        for name in found:
            asked = self.all_keys.get(name)
            while asked is not None and asked.goes_with is not None:
                other, wanted = asked.goes_with
                if values.get(other, wanted[0]) not in wanted:
                    choices = " or ".join(f'"{each}"' for each in wanted)
                    problems.warn((*path, name), f"this has no effect without {other} = {choices}")
                    break
                asked = self.all_keys[other]

    @cached_property
    def all_keys(self) -> dict[str, Key]:
        every = [*self.keys, *(key for keys in self.kinds.values() for key in keys)]
        return {key.name: key for key in every}

    def _keys_for(self, found: Mapping[str, Any]) -> dict[str, Key]:
        if not self.kinds:
            return self.all_keys
        kind = found.get("kind", next(key.default for key in self.keys if key.name == "kind"))
        if not isinstance(kind, str) or kind not in self.kinds:
            # The kind itself is the problem; what belongs to any kind is let pass and what is required is not missed.
            return {key.name: key for key in self.keys} | {
                name: key for name, key in self.all_keys.items() if name in found
            }
        return {key.name: key for key in (*self.keys, *self.kinds[kind])}

    def _unknown(
        self, name: str, keys: Mapping[str, Key], found: Mapping[str, Any], path: KeyPath, problems: Problems
    ) -> None:
        owners = [f'"{kind}"' for kind, own in self.kinds.items() if any(key.name == name for key in own)]
        if owners:
            kind = found.get("kind", "the default")
            problems.add((*path, name), f'this key goes with kind = {" or ".join(owners)}, not with "{kind}"')
            return
        free = [each for each in keys if each not in found]
        problems.add((*path, name), "unknown key", did_you_mean(name, free) or f"the keys here are {', '.join(keys)}")


@dataclass(frozen=True)
class Repeated:
    """A table that may be there many times: [[client]]."""

    table: Table
    most: int

    def words(self) -> str:
        return f"tables [[{self.table.name}]]"

    def read(self, found: Any, path: KeyPath, problems: Problems) -> Any:
        """The raw entries: what they mean depends on the tables around them."""
        if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
            wrong(self, found, path, problems, f"write it as [[{self.table.name}]]")
            return []
        if len(found) > self.most:
            wrong(self, found, path, problems, f"at most {self.most:,}")
            return []
        return found

    def entries(self, found: Any, path: KeyPath, problems: Problems, only_own: bool = False) -> Iterator[Values]:
        for number, each in enumerate(found or ()):
            yield self.table.values(each, (*path, number), problems, only_own)


def complaint_about(root: Table, key: str) -> str:
    """Why a dotted key cannot be set, or nothing when it can."""
    shape: Any = root
    before = ""
    for name in key.split("."):
        if isinstance(shape, Repeated):
            if not (name.isascii() and name.isdigit()):
                return f"expected a position in {before}, counted from 0, such as {before}.0"
            shape = shape.table
        elif isinstance(shape, Table):
            name = next((key.name for key in shape.all_keys.values() if key.formerly == name), name)
            if name not in shape.all_keys:
                hint = did_you_mean(name, shape.all_keys) or f"the keys here are {', '.join(shape.all_keys)}"
                return f'unknown key "{name}"; {hint}'
            shape = shape.all_keys[name].shape
        else:
            return ""  # inside a list or a table of attributes; reading will tell
        before = f"{before}.{name}" if before else name
    return ""
