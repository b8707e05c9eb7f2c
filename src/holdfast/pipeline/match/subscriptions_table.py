"""Subscriptions as a table: rows of id and condition become parsed subscriptions, ready to be compiled.

A bad row is never dropped in silence. Every problem of the whole table is found first: then either the job stops and
lists them by id, or, when asked to, the good ones go on and the bad ones are kept as rows of a `rejected` table.
"""

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from holdfast.language.limits import PROBLEMS_MAX
from holdfast.language.parser import parse
from holdfast.language.problems import ConditionError
from holdfast.language.subscription import Subscription
from holdfast.model.errors import InputError
from holdfast.model.values import Kind
from holdfast.pipeline.match.event_files import files_of, format_of, frame, is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from holdfast.matching.matcher import Matcher

Id = str | int
_IDS_MAX = 1_000  # of invalid subscriptions named in a message: what a screen and a log line still hold
_ID_TYPES = ("string", "bigint", "int", "smallint", "tinyint")
ANOTHER = "there is another subscription with this id"
REJECTED = pa.schema([("id", pa.string()), ("condition", pa.string()), ("problem", pa.string())])


class Rejected(NamedTuple):
    """A row that is not a subscription, and why."""

    id: str | None
    condition: str | None
    problem: str


@dataclass(frozen=True)
class Subscriptions:
    """Parsed subscriptions by id. All ids are strings, or all are integers."""

    by_id: dict[Id, Subscription]
    rejected: tuple[Rejected, ...] = ()

    @cached_property
    def uses(self) -> Counter[tuple[str, Kind | None]]:
        """How many subscriptions look at an attribute as a value of some kind; None for null tests and expressions."""
        return Counter(
            use
            for each in self.by_id.values()
            for use in {(name, test.kind) for filter_ in each.filters for test in filter_ for name in test.names}
        )

    @property
    def attributes(self) -> frozenset[str]:
        """Everything that some condition looks at."""
        return frozenset(attribute for attribute, _ in self.uses)

    @property
    def has_integer_ids(self) -> bool:
        return type(next(iter(self.by_id), "")) is int

    def matcher(self) -> "Matcher":
        from holdfast.matching.matcher import Matcher  # noqa: PLC0415 - loads numba, and few events do without

        made = Matcher()
        for id_, subscription in self.by_id.items():
            made.add(id_, subscription)
        return made


def newest_entry(path: Path) -> Path:
    """The newest `version=N` of a folder, or the path itself."""
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder")
    versions = [each for each in path.glob("version=*") if not (each / "_temporary").exists()] if path.is_dir() else []
    return max(versions, key=_order, default=path)


def _order(entry: Path) -> tuple[int, int, str]:
    """Numbers by their value and before them everything else by its letters."""
    name = entry.stem.removeprefix("version=") if entry.is_file() else entry.name.removeprefix("version=")
    return (1, int(name), "") if name.isdecimal() else (0, 0, name)


def open_subscriptions(spark: "SparkSession", path: str) -> "DataFrame":
    """A subscriptions file or folder as a table: Parquet, JSONL, CSV or TOML."""
    if not is_remote(path) and path.endswith(".toml"):
        return spark.createDataFrame(from_toml(Path(path)), "id string, condition string")
    form = format_of(path, [] if is_remote(path) else files_of(path))
    table = frame(spark, path, form)
    # A CSV file has no types, so an id such as 007 stays what it is.
    return table.select(*(table[name].cast("string").alias(name) for name in table.columns)) if form == "csv" else table


def from_toml(path: Path) -> list[tuple[str, str]]:
    expected = (
        'expected [subscriptions] with lines such as cheap = "price < 10", or [[subscriptions]] with id, condition'
    )
    try:
        found = tomllib.loads(path.read_text()).get("subscriptions")
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except OSError as problem:
        raise InputError(f"{path}: cannot be read ({problem.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise InputError(f"{path}: not a TOML file: {problem}") from None
    if isinstance(found, dict):
        rows = [*found.items()]
    elif isinstance(found, list) and all(isinstance(each, dict) for each in found):
        rows = [(each.get("id"), each.get("condition")) for each in found]
    else:
        raise InputError(f"{path}: {expected}")
    odd = [str(id_) for id_, condition in rows if not isinstance(id_, str) or not isinstance(condition, str)]
    if odd:
        raise InputError(f"{path}: {expected}, both texts in quotes; not so: {', '.join(odd)}")
    return rows


def check_columns(table: "DataFrame") -> "DataFrame":
    """The two columns that matter, if they are there and of the right types."""
    check_kinds(dict(table.dtypes))
    return table.select("id", "condition")


def check_kinds(kinds: Mapping[str, str]) -> None:
    """That there are the two columns that matter, by their types in Spark's words."""
    missing = [name for name in ("id", "condition") if name not in kinds]
    if missing:
        raise InputError(
            f"subscriptions: expected columns id and condition, found {', '.join(kinds) or 'none'}; "
            f"missing: {', '.join(missing)}"
        )
    if kinds["id"] not in _ID_TYPES:
        raise InputError(f"subscriptions: expected ids that are strings or integers, found {kinds['id']}")
    if kinds["condition"] != "string":
        raise InputError(f"subscriptions: expected conditions that are strings, found {kinds['condition']}")


def read_subscriptions(table: "DataFrame", *, skip_invalid: bool = False) -> Subscriptions:
    """The subscriptions of a DataFrame with columns `id` and `condition`; other columns are ignored."""
    return parsed(check_columns(table).toArrow(), skip_invalid=skip_invalid)


def parsed(rows: pa.Table, *, skip_invalid: bool = False) -> Subscriptions:
    """Parse every row; the problems of all of them are told at once."""
    by_id: dict[Id, Subscription] = {}
    rejected: list[Rejected] = []
    for id_, condition, found in parse_each(rows):
        if isinstance(found, str):
            rejected.append(Rejected(None if id_ is None else str(id_), condition, found))
        elif id_ in by_id:
            rejected.append(Rejected(str(id_), condition, ANOTHER))
        else:
            by_id[id_] = found  # type: ignore[index]  # a null id is a problem
    if rejected and not skip_invalid:
        raise InvalidSubscriptionsError(rejected)
    return Subscriptions(by_id, tuple(rejected))


def parse_each(rows: pa.Table | pa.RecordBatch) -> Iterator[tuple[Id | None, str | None, Subscription | str]]:
    """Each row with its subscription, or with what is wrong with it."""
    for id_, condition in zip(rows["id"].to_pylist(), rows["condition"].to_pylist(), strict=True):
        found: Subscription | str
        if id_ is None or condition is None:
            found = f"expected {'an id' if id_ is None else 'a condition'}, found null"
        else:
            try:
                found = parse(condition)
            except ConditionError as error:
                found = str(error)
        yield id_, condition, found


class InvalidSubscriptionsError(InputError):
    """All of them by id, the first ones with their problems. `count` when there are more than were handed in."""

    def __init__(self, rejected: Sequence[Rejected], count: int | None = None) -> None:
        count = len(rejected) if count is None else count
        self.number = f"{count:,} subscriptions are" if count > 1 else "1 subscription is"
        self.listed = _listed(rejected, count)
        super().__init__(f"{self.number} not valid (correct them, or skip them with --skip-invalid):\n{self.listed}")


def _listed(rejected: Sequence[Rejected], count: int) -> str:
    shown = [f"{each.id}: {each.problem}" for each in rejected[:PROBLEMS_MAX]]
    rest = [str(each.id) for each in rejected[PROBLEMS_MAX:_IDS_MAX]]
    if rest:
        more = f" and {count - _IDS_MAX:,} others" if count > _IDS_MAX else ""
        shown.append(f"also: {', '.join(rest)}{more}")
    return "\n".join(shown)


def rejected_table(rejected: Iterable[Rejected]) -> pa.Table:
    return pa.Table.from_pylist([each._asdict() for each in rejected], REJECTED)
