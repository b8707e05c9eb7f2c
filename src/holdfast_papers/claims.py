"""Claims of a paper beside what we measured: as Markdown, Parquet and HTML."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from math import isnan, nan
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.pipeline.report.style import STYLE
from holdfast_papers.estimates import Estimate, Interval, exact
from holdfast_papers.verdicts import Allowed, Verdict, counted, verdict

# Who says it: the paper; the paper, and a parameter of ours was fitted to it, so that it is no evidence; or nobody but
# us.
Origin = Literal["paper", "fitted", "ours"]
_GROUPS: dict[Origin, tuple[str, str]] = {
    "paper": ("statement of the paper", "statements of the paper"),
    "fitted": ("value that settings were fitted to", "values that settings were fitted to"),
    "ours": ("target of our own", "targets of our own"),
}


@dataclass(frozen=True)
class Claim:
    id: str
    claim: str
    paper: str  # its value or its words, or what we ask for
    found: Estimate
    allowed: Allowed | None  # None where nothing is claimed that could fail: a value to look at
    origin: Origin
    settings: str  # of the runs
    note: str = ""  # why it does not hold, or how ours differs

    @property
    def ours(self) -> float:
        return self.found.value

    @property
    def verdict(self) -> Verdict | None:
        return None if self.allowed is None else verdict(self.allowed, self.found)

    def as_json(self) -> dict[str, object]:
        return {
            "id": self.id,
            "claim": self.claim,
            "paper": self.paper,
            "ours": self.found.value,
            "interval": self.found.interval,
            "runs": self.found.runs,
            "allowed": None if self.allowed is None else asdict(self.allowed),
            "verdict": self.verdict,
            "origin": self.origin,
            "settings": self.settings,
            "note": self.note,
        }


def untested(id_: str, claim: str, paper: str, why: str) -> Claim:
    """A statement of a paper that this study says nothing about, and the reason."""
    return Claim(id_, claim, paper, exact(nan), None, "paper", "", why)


def shown(value: float) -> str:
    if isnan(value):
        return "not tested"
    if value and abs(value) < 0.001:
        return f"{value:.2g}"
    return f"{value:,.4g}"


def _interval_text(found: Estimate) -> str:
    if found.runs is None:
        return "" if isnan(found.value) else "no chance"
    return "" if found.interval is None else f"{shown(found.interval[0])} to {shown(found.interval[1])}"


def summary(claims: Sequence[Claim]) -> str:
    """The verdicts counted, each kind of claim apart: only the first kind is evidence about a paper."""
    parts = []
    for origin, (one, several) in _GROUPS.items():
        verdicts = [each.verdict for each in claims if each.origin == origin and each.verdict is not None]
        if verdicts:
            parts.append(f"of {len(verdicts)} {one if len(verdicts) == 1 else several}: {counted(verdicts)}")
    text = "; ".join(parts) or "no claim has a criterion"
    return text[0].upper() + text[1:]


_HEADS = ("id", "claim", "paper", "holds if", "ours", "95 %", "verdict", "of", "settings", "note")


def _cells(claim: Claim) -> tuple[str, ...]:
    return (
        claim.id,
        claim.claim,
        claim.paper,
        "" if claim.allowed is None else str(claim.allowed),
        shown(claim.ours),
        _interval_text(claim.found),
        claim.verdict or "",
        claim.origin,
        claim.settings,
        claim.note,
    )


def markdown(claims: Sequence[Claim]) -> str:
    lines = ["| " + " | ".join(_HEADS) + " |", "|" + "---|" * len(_HEADS)]
    lines += ["| " + " | ".join(each.replace("|", "\\|") for each in _cells(claim)) + " |" for claim in claims]
    return "\n".join(lines) + "\n"


def html(title: str, claims: Sequence[Claim], figures: Sequence[tuple[str, str]]) -> str:
    """A page that stands alone: the table, then the figures (title and SVG)."""
    head = "".join(f"<th>{escape(each)}</th>" for each in _HEADS)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in _cells(each)) + "</tr>" for each in claims)
    pictures = "".join(f'<section class="card wide">{picture}</section>' for _, picture in figures)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}{_OWN_STYLE}</style></head><body><main>'
        f'<h1>{escape(title)}</h1><p class="about">{summary(claims)}</p>'
        f'<section class="card wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></section>'
        f"{pictures}</main></body></html>\n"
    )


_OWN_STYLE = """
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
td, th { text-align: left; vertical-align: top; padding: 6px 8px; border-bottom: 1px solid var(--edge); }
svg { max-width: 100%; height: auto; }
"""


def page(title: str, claims: Sequence[Claim], figures: Sequence[str]) -> str:
    """The table and the figures as Markdown; the figures are files beside it, numbered from 1."""
    pictures = "".join(f"\n![{each}]({figure_file(number)})\n" for number, each in enumerate(figures, 1))
    return f"# {title}\n\n{summary(claims)}.\n\n{markdown(claims)}{pictures}"


def figure_file(number: int) -> str:
    return f"figures/{number:02d}.svg"


def write(folder: Path, title: str, claims: Sequence[Claim], figures: Sequence[tuple[str, str]]) -> None:
    """Figures are a title and an SVG each."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    for number, (_, picture) in enumerate(figures, 1):
        (folder / figure_file(number)).write_text(picture, encoding="utf-8")
    (folder / "claims.md").write_text(page(title, claims, [name for name, _ in figures]), encoding="utf-8")
    (folder / "claims.html").write_text(html(title, claims, figures), encoding="utf-8")
    pq.write_table(pa.Table.from_pylist([_row(each) for each in claims], _SCHEMA), folder / TABLE)


def read(folder: Path) -> list[Claim]:
    """The claims that a study left in its folder. Verdicts are not read but follow again from the figures."""
    return [_claim(row) for row in pq.read_table(folder / TABLE).to_pylist()]


TABLE = "claims.parquet"
_COLUMNS = {"ours": pa.float64(), "runs": pa.int64()}  # the others are text
_JSON = ("interval", "allowed")
_SCHEMA = pa.schema(
    [
        (name, _COLUMNS.get(name, pa.string()))
        for name in "id claim paper ours interval runs allowed verdict origin settings note".split()
    ]
)


def _row(claim: Claim) -> dict[str, object]:
    row = claim.as_json()
    return row | {name: json.dumps(row[name]) for name in _JSON}


def _claim(row: dict[str, Any]) -> Claim:
    interval: Interval | None = json.loads(row["interval"])
    allowed = json.loads(row["allowed"])
    return Claim(
        row["id"],
        row["claim"],
        row["paper"],
        Estimate(row["ours"], None if interval is None else (interval[0], interval[1]), row["runs"]),
        None if allowed is None else Allowed(**allowed),
        row["origin"],
        row["settings"],
        row["note"],
    )
