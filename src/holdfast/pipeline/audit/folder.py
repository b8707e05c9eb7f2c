"""The folder an audit leaves: Parquet tables, beside them the reports (`pipeline/report`), all or nothing.

    report.html              one run, or two compared; several runs have one report-NAME.html each
    overall, promises, messages, incidents, distributions
                             a few rows each
    subscribers, publishers, pairs, seconds, message_seconds
                             as large as the runs, written by the engine: on a cluster all machines see the folder

Everything is written into a folder beside and renamed at the end. An older audit is replaced only when asked for, and
what is not an audit never.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.model.errors import InputError
from holdfast.pipeline.audit.job import Audit, AuditedRun
from holdfast.pipeline.audit.metrics import COUNTED, VIOLATIONS, publisher_counts
from holdfast.pipeline.audit.slices import Shown
from holdfast.pipeline.engine import Relation
from holdfast.pipeline.result_folder import ResultFolder

LARGE = ("subscribers", "publishers", "pairs", "seconds", "message_seconds")
SMALL = ("overall", "promises", "messages", "incidents", "distributions")
_REPORT = re.compile(r"report(-.*)?\.html")


@contextmanager
def audit_folder(folder: Path, overwrite: bool) -> Iterator[Path]:
    """A folder beside, which takes the place of `folder` when all went well. Refused before any work is done."""
    with ResultFolder(folder, overwrite, check_replaceable) as results:
        yield results.draft


def check_replaceable(folder: Path, overwrite: bool) -> None:
    there = folder.exists()
    foreign = [path.name for path in sorted(folder.iterdir()) if not _is_ours(path)] if there else []
    if foreign:
        raise InputError(f"{folder} holds what is not part of an audit: {', '.join(foreign[:3])}; name another")
    if there and any(folder.iterdir()) and not overwrite:
        raise InputError(f"{folder} holds an audit already; name another folder, or give --overwrite")


def _is_ours(path: Path) -> bool:
    if path.is_symlink():
        return False
    if path.is_dir():
        return path.name in (*LARGE, *SMALL) and all(part.suffix == ".parquet" for part in path.iterdir())
    return bool(_REPORT.fullmatch(path.name))


def write_tables(
    audit: Audit, found: Mapping[str, Shown], folder: Path, small: Callable[[pa.Table], pa.Table] = lambda rows: rows
) -> None:
    """All tables; `found` is what reports show, by run. `small` is done to those of a few rows before."""
    for name, table in large_tables(audit).items():
        table.engine.write(table, folder / name)
    for name, rows in small_tables(audit, found).items():
        (folder / name).mkdir()
        pq.write_table(small(rows), folder / name / "part-00000.parquet", compression="zstd")


# Large tables ------------------------------------------------------------------------------------------------------


def large_tables(audit: Audit) -> dict[str, Relation]:
    engine, figures = audit.trace.engine, audit.figures
    kept = figures.others("scope", "run", "subscriber", "source", *VIOLATIONS)

    def of(scope: str, *keys: str) -> Relation:
        return engine.sql(f"SELECT {', '.join((*keys, *kept))} FROM {figures} WHERE scope = '{scope}'")

    # Nothing was owed of a source that nobody wanted anything of; it has no delays, and no order.
    zero = {**dict.fromkeys((*COUNTED, "held_total_us"), "0"), "delivery_ratio": "CAST(1 AS DOUBLE)"}
    own = [f"coalesce({name}, {zero[name]}) AS {name}" if name in zero else name for name in kept]
    return {
        "subscribers": of("subscriber", "run", "subscriber"),
        "publishers": engine.sql(f"""
            SELECT run, source, published, {", ".join(own)} FROM {publisher_counts(audit.trace)}
            LEFT JOIN {of("publisher", "run", "source")} USING (run, source)"""),
        "pairs": of("pair", "run", "subscriber", "source"),
        "seconds": engine.sql(f"SELECT * FROM {audit.seconds} ORDER BY run, second"),
        "message_seconds": engine.sql(
            f"SELECT {', '.join(audit.messages.others('whole'))} FROM {audit.messages} WHERE whole = 0"
        ),
    }


# Small tables ------------------------------------------------------------------------------------------------------


def small_tables(audit: Audit, found: Mapping[str, Shown]) -> dict[str, pa.Table]:
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in SMALL}
    for run in audit.runs:
        label = {"run": run.label}
        rows["overall"].append({**label, **_flat(run)})
        rows["promises"] += [
            {
                **label,
                "promise": name,
                "holds": verdict.holds,
                "checked": verdict.checked,
                "broken": verdict.broken,
                "examples": json.dumps(verdict.examples),
                "note": verdict.note,
            }
            for name, verdict in run.verdicts.items()
        ]
        rows["messages"] += [{**label, "kind": kind, **counts} for kind, counts in run.outcome.messages.items()]
        rows["incidents"] += [{**label, "kind": kind, "count": times} for kind, times in run.outcome.incidents.items()]
        rows["distributions"] += [
            {**label, "what": what, "most": most, "count": times}
            for what, classes in found[run.label].distributions.items()
            for most, times in classes
        ]
    return {name: pa.Table.from_pylist(each, _SCHEMAS.get(name)) for name, each in rows.items()}


_TEXT, _LONG = pa.string(), pa.int64()
_COUNTS = [(name, _LONG) for name in ("sent", "bytes", "lost", "received")]
_SCHEMAS = {
    "messages": pa.schema([("run", _TEXT), ("kind", _TEXT), *_COUNTS]),
    "incidents": pa.schema([("run", _TEXT), ("kind", _TEXT), ("count", _LONG)]),
    "distributions": pa.schema([("run", _TEXT), ("what", _TEXT), ("most", _LONG), ("count", _LONG)]),
}


def _flat(run: AuditedRun) -> dict[str, Any]:
    """The figures of a whole run in one row."""
    about = {name: run.about.get(name) for name in ("name", "driver", "version", "seed")}
    kept = {name: value for name, value in run.figures.items() if name not in VIOLATIONS and name not in _KEYS}
    own = {"published": run.outcome.published, "transmissions": run.outcome.transmissions, "bytes": run.outcome.bytes}
    return {"folder": str(run.folder), **about, **own, **kept, **run.overhead}


_KEYS = ("run", "subscriber", "source", "scope")
