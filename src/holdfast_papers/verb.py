"""`holdfast reproduce`: a paper's figures and claims, measured again."""

import json
import sys
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.model.errors import InputError

if TYPE_CHECKING:
    from holdfast.pipeline.sweep.progress import Progress
    from holdfast_papers.study import Study

_LINE_EVERY_S = 10  # between progress lines


def run(
    study: Annotated[
        str,
        typer.Argument(
            metavar="STUDY",
            help="end-to-end (paper 000), gossip (001), fifo (002), replication (003) or prediction (004).",
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="The folder for tables and figures; STUDY-SCALE otherwise.")] = None,
    scale: Annotated[
        str, typer.Option(metavar="quick|paper", help="Short runs with few seeds, or the papers' own durations.")
    ] = "quick",
    master: Annotated[str | None, typer.Option(help="A Spark cluster, such as spark://host:7077.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run a paper's experiments again and judge its claims by them.

    The folder gets claims.md, claims.html and claims.parquet, the figures as SVG, and the sweeps themselves; a study
    that was interrupted goes on where it was.

    A claim holds, does not hold or is undecided; the table says which, and from what.

    Exit code 0: every claim holds. 1: some do not, or are undecided. 2: bad input.

    \b
    Example:
      holdfast reproduce end-to-end --scale quick
    """
    from holdfast.model.validation import did_you_mean
    from holdfast_papers.studies import STUDIES

    if study not in STUDIES:
        hint = did_you_mean(study, list(STUDIES)) or f"there are {', '.join(STUDIES)}"
        raise InputError(f'there is no study "{study}"; {hint}')
    if scale not in ("quick", "paper"):
        raise InputError(f'--scale {scale}: expected "quick" or "paper"')
    _reproduce(STUDIES[study], scale, out or Path(f"{study}-{scale}"), master, as_json)


def _reproduce(study: "Study", scale: str, out: Path, master: str | None, as_json: bool) -> None:
    import holdfast_papers
    from holdfast.pipeline.session import session
    from holdfast.pipeline.shipping import ship_where_needed
    from holdfast_papers.claims import markdown
    from holdfast_papers.study import reproduce

    spark = session("holdfast reproduce", master, {}, profile="test")
    ship_where_needed(spark, Path(holdfast_papers.__file__).parent)
    claims = reproduce(spark, study, scale, out, _ProgressLines())  # type: ignore[arg-type]
    if as_json:
        print(json.dumps({"study": study.name, "scale": scale, "claims": [each.as_json() for each in claims]}))
    else:
        print(markdown(claims))
        print(f"tables and figures in {out}")
    if any(each.verdict not in (None, "holds") for each in claims):
        raise typer.Exit(1)


class _ProgressLines:
    def __init__(self) -> None:
        self._printed_s = 0.0

    def __call__(self, name: str, progress: "Progress") -> None:
        if monotonic() - self._printed_s >= _LINE_EVERY_S:
            self._printed_s = monotonic()
            print(f"{name}: {progress.done} of {progress.total} runs done, {progress.failed} failed", file=sys.stderr)
