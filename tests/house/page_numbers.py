"""Figures in the prose of our pages, taken from the files that measured them, so that they cannot go stale.

    ./run python -m tests.house.page_numbers

writes them anew, in all pages or in those that it is given; a test wants every page to be what this would write. A
figure stands in a page between two comments, of which the first says where it is from and how it is written:

    <!--= claims end-to-end ours-bytes-12 ours % -->8.4 %<!--/-->        docs/reproduction/end-to-end/claims.parquet
    <!--= claims fifo ID note~adds ([\\d.]+) ms .2 -->1.2<!--/-->         a number in that row's note
    <!--= bench live rows[system=nats;subscribers=1].p50_us , -->240<!--/-->   bench/results/live.json

Formats: `%` per cent and `.N` plainly, both with N (or 3) significant digits; `,` whole, with thousands.
"""

import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

ROOT = Path(__file__).parents[2]
_FIGURE = re.compile(
    r"<!--= (?P<source>claims|bench) (?P<file>\S+) (?P<what>.+?) (?P<format>%\d?|,|\.\d) -->.*?<!--/-->"
)
_STEP = re.compile(r"(\w+)(?:\[([^\]]+)\])?")


def renewed(page: str) -> str:
    """The page with every figure as its file has it; a LookupError names a figure whose row or key is gone."""
    return _FIGURE.sub(_written, page)


def figures(page: str) -> int:
    return len(_FIGURE.findall(page))


def _written(found: re.Match[str]) -> str:
    source, file, what, form = (found[name] for name in ("source", "file", "what", "format"))
    value = _claimed(file, what) if source == "claims" else _benched(file, what)
    return f"<!--= {source} {file} {what} {form} -->{_text(value, form)}<!--/-->"


@cache
def _claims(study: str) -> dict[str, dict[str, Any]]:
    rows = pq.read_table(ROOT / "docs" / "reproduction" / study / "claims.parquet").to_pylist()
    return {row["id"]: row for row in rows}


def _claimed(study: str, what: str) -> float:
    id_, _, field = what.partition(" ")
    row = _claims(study).get(id_)
    if row is None:
        raise LookupError(f"the study {study} has no row {id_!r} any more; choose another for the page")
    if field.startswith("note~"):
        found = re.search(field.removeprefix("note~"), row["note"])
        if found is None:
            raise LookupError(f"{study}, {id_}: nothing in its note is like {field.removeprefix('note~')!r}")
        return float(found[1].replace(",", ""))
    return float(row[field])


def _benched(name: str, path: str) -> float:
    value: Any = json.loads((ROOT / "bench" / "results" / f"{name}.json").read_text(encoding="utf-8"))
    for key, where in _STEP.findall(path):
        value = value[key]
        if where:
            wanted = dict(each.split("=", 1) for each in where.split(";"))
            rows = [row for row in value if all(str(row[column]) == text for column, text in wanted.items())]
            if len(rows) != 1:
                raise LookupError(f"bench/results/{name}.json: {len(rows)} rows are like {where!r}, not one")
            value = rows[0]
    return float(value)


def _text(value: float, form: str) -> str:
    if form == ",":
        return f"{value:,.0f}"
    digits = int(form[1:] or 3)
    text = f"{100 * value if form[0] == '%' else value:.{digits}g}"
    plain = f"{float(text):,.10f}".rstrip("0").rstrip(".") if "e" in text else text
    return f"{plain} %" if form[0] == "%" else plain


if __name__ == "__main__":
    for page in [Path(each) for each in sys.argv[1:]] or (ROOT / "docs").glob("*.md"):
        page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")
