"""`holdfast reproduce`: a paper's figures and claims, measured again."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.progress_shown import progress_shown
from holdfast.cli.spark_options import Conf, Master, Packages, spark_settings
from holdfast.model.errors import InputError

if TYPE_CHECKING:
    from holdfast_papers.study import Study

_ALL = "all"


def run(
    study: Annotated[
        str,
        typer.Argument(
            metavar="STUDY",
            help="end-to-end (paper 000), gossip (001), fifo (002), replication (003), prediction (004), or all.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder for tables and figures; STUDY-SCALE otherwise. Of all studies: one folder each in it."
        ),
    ] = None,
    scale: Annotated[
        str, typer.Option(metavar="quick|paper", help="Short runs with few seeds, or the papers' own durations.")
    ] = "quick",
    master: Master = None,
    conf: Conf = None,
    packages: Packages = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for each study.")] = False,
) -> None:
    """Run a paper's experiments again and judge its claims by them.

    The folder gets claims.md, claims.html and claims.parquet, the figures as SVG, and the sweeps themselves; a study
    that was interrupted goes on where it was.

    A claim holds, does not hold or is undecided; the table says which, and from what.

    Exit code 0: every claim holds. 1: some do not, or are undecided. 2: bad input.

    \b
    Example:
      holdfast reproduce end-to-end --scale quick
      holdfast reproduce all --scale paper --out reproduction
    """
    from holdfast.model.validation import did_you_mean
    from holdfast_papers.studies import STUDIES

    if study != _ALL and study not in STUDIES:
        hint = did_you_mean(study, [*STUDIES, _ALL]) or f"there are {', '.join(STUDIES)}, and {_ALL}"
        raise InputError(f'there is no study "{study}"; {hint}')
    if scale not in ("quick", "paper"):
        raise InputError(f'--scale {scale}: expected "quick" or "paper"')
    if study == _ALL:
        folders = {each: (out or Path()) / (name if out else f"{name}-{scale}") for name, each in STUDIES.items()}
    else:
        folders = {STUDIES[study]: out or Path(f"{study}-{scale}")}
    _reproduce(folders, scale, master, spark_settings(conf, packages), as_json)


def _reproduce(
    folders: "dict[Study, Path]", scale: str, master: str | None, settings: dict[str, str], as_json: bool
) -> None:
    """One study after the other; each prints what it found when it is over."""
    import holdfast_papers
    from holdfast.pipeline.session import plain_interrupts, session
    from holdfast.pipeline.shipping import ship_where_needed
    from holdfast_papers.claims import markdown, summary
    from holdfast_papers.study import reproduce

    spark = session("holdfast reproduce", master, settings, profile="test")
    plain_interrupts()
    ship_where_needed(spark, Path(holdfast_papers.__file__).parent)
    found = []
    for study, out in folders.items():
        with progress_shown(study.name) as show:
            claims = reproduce(spark, study, scale, out, show)  # type: ignore[arg-type]
        found += claims
        if as_json:
            print(json.dumps({"study": study.name, "scale": scale, "claims": [each.as_json() for each in claims]}))
        else:
            print(f"{markdown(claims)}\n{summary(claims)}.\nTables and figures are in {out}.")
    if any(each.verdict not in (None, "holds") for each in found):
        raise typer.Exit(1)
