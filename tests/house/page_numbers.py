"""Figures in the prose of our pages, copied from the files that measured them, so that they cannot go stale.

    ./run python -m tests.house.page_numbers

updates them, in all pages or in those that it is given; a test fails when a page is not up to date. In a page a
figure is a reference link, `[8.4 %][bytes-12]`. The end of the page defines the link: the file, and in its title the
value in the file and the format. A reader of the page can follow the link to the file.

    [bytes-12]: reproduction/end-to-end/claims.md "ours-bytes-12 ours %"          a row of claims.parquet beside it
    [delay]: reproduction/fifo/claims.md "ID note~adds ([\\d.]+) ms .2"            a number in that row's note
    [p50]: ../bench/results/live.json "rows[system=nats;subscribers=1].p50_us ,"  a value of a benchmark

Formats: `%` per cent and `.N` plain, both with N (or 3) significant digits; `,` an integer with thousands separators.
"""

import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

ROOT = Path(__file__).parents[2]
_DEFINITION = re.compile(
    r"^\[(?P<label>[\w-]+)\]: (?:reproduction/(?P<study>[\w-]+)/claims\.md|\.\./bench/results/(?P<bench>[\w-]+)\.json)"
    r' "(?P<what>.+?) (?P<format>%\d?|,|\.\d)"$',
    re.MULTILINE,
)
_USE = re.compile(r"\[([^\[\]]+)\]\[([\w-]+)\]")
_STEP = re.compile(r"(\w+)(?:\[([^\]]+)\])?")


def renewed(page: str) -> str:
    """The page with every figure as its file has it; a LookupError names a figure whose row or key is gone."""
    current = {each["label"]: _current(each) for each in _DEFINITION.finditer(page)}
    return _USE.sub(lambda use: f"[{current.get(use[2], use[1])}][{use[2]}]", page)


def labels(page: str) -> tuple[list[str], list[str]]:
    """The labels that the page defines, and those that it uses."""
    prose = re.sub(r"(`+)[^`].*?\1", "", page)  # a page may show the notation itself
    return [each["label"] for each in _DEFINITION.finditer(page)], [label for _, label in _USE.findall(prose)]


def _current(found: re.Match[str]) -> str:
    value = _claimed(found["study"], found["what"]) if found["study"] else _benched(found["bench"], found["what"])
    return _text(value, found["format"])


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
