"""Claims of a paper beside what we measured: as Markdown, Parquet and HTML."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.pipeline.charts.lines import Spot
from holdfast.pipeline.confidence import half_width_factor
from holdfast.pipeline.report.style import STYLE

Interval = tuple[float, float]
Estimate = tuple[float, Interval | None]


@dataclass(frozen=True)
class Claim:
    id: str
    claim: str
    paper: str  # its value, or what it asks for
    ours: float
    holds: bool | None  # None where nothing is claimed that could fail: a value to look at
    settings: str  # of the runs
    interval: Interval | None = None  # of ours, 95 %
    note: str = ""  # why it does not hold, or how ours differs

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of some runs and its 95 % interval (Student's); one run has none."""
    mean = fmean(values)
    if len(values) < 2:
        return mean, None
    half = half_width_factor(len(values)) * stdev(values)
    return mean, (mean - half, mean + half)


def ratio_of_sums(above: Sequence[float], below: Sequence[float]) -> Estimate:
    """Sum over sum, with the interval of the linearised ratio over runs: large runs count for more."""
    ratio = sum(above) / sum(below)
    n = len(above)
    if n < 2:
        return ratio, None
    mean = sum(below) / n
    off = [a - ratio * b for a, b in zip(above, below, strict=True)]
    half = half_width_factor(n) * sqrt(sum(each * each for each in off) / (n - 1)) / mean
    return ratio, (ratio - half, ratio + half)


def spot(x: float, found: Estimate) -> Spot:
    """An estimate as a point of a chart."""
    mean, interval = found
    return Spot(x, mean, *(interval or (None, None)))


def shown(value: float) -> str:
    if value and abs(value) < 0.001:
        return f"{value:.2g}"
    return f"{value:,.4g}"


def _interval_text(interval: Interval | None) -> str:
    return "" if interval is None else f"{shown(interval[0])} to {shown(interval[1])}"


def _verdict(claim: Claim) -> str:
    return {True: "holds", False: "does not hold", None: ""}[claim.holds]


def _summary(claims: Sequence[Claim]) -> str:
    verdicts = [each.holds for each in claims if each.holds is not None]
    return f"{sum(verdicts)} of {len(verdicts)} claims hold"


_HEADS = ("id", "claim", "paper", "ours", "95 %", "", "settings", "note")


def _cells(claim: Claim) -> tuple[str, ...]:
    ours = shown(claim.ours)
    return (
        claim.id,
        claim.claim,
        claim.paper,
        ours,
        _interval_text(claim.interval),
        _verdict(claim),
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
        f'<h1>{escape(title)}</h1><p class="about">{_summary(claims)}</p>'
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
    return f"# {title}\n\n{_summary(claims)}.\n\n{markdown(claims)}{pictures}"


def figure_file(number: int) -> str:
    return f"figures/{number:02d}.svg"


def write(folder: Path, title: str, claims: Sequence[Claim], figures: Sequence[tuple[str, str]]) -> None:
    """Figures are a title and an SVG each."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    for number, (_, picture) in enumerate(figures, 1):
        (folder / figure_file(number)).write_text(picture, encoding="utf-8")
    (folder / "claims.md").write_text(page(title, claims, [name for name, _ in figures]), encoding="utf-8")
    (folder / "claims.html").write_text(html(title, claims, figures), encoding="utf-8")
    rows = [{**each.as_json(), "interval": json.dumps(each.interval)} for each in claims]
    pq.write_table(pa.Table.from_pylist(rows), folder / "claims.parquet")
