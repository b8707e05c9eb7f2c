"""The reports of an audit as files: one page for each run, or one for two runs side by side."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from holdfast.pipeline.audit.expectations import Expectation
from holdfast.pipeline.audit.job import AuditedRun
from holdfast.pipeline.audit.slices import Shown
from holdfast.pipeline.report.page import comparison, report

Expect = Callable[[AuditedRun, Shown], list[Expectation]]


def write_reports(
    runs: Sequence[AuditedRun],
    found: Mapping[str, Shown],
    folder: Path,
    side_by_side: bool = False,
    expect: Expect = lambda run, shown: [],
) -> None:
    """`expect` says what was predicted of a run."""
    for name, text in _reports(runs, found, side_by_side, expect).items():
        (folder / name).write_text(text, encoding="utf-8")


def _reports(
    runs: Sequence[AuditedRun], found: Mapping[str, Shown], side_by_side: bool, expect: Expect
) -> dict[str, str]:
    if side_by_side:
        return {"report.html": comparison([(run, found[run.label]) for run in runs])}
    made = {run.label: report(run, found[run.label], expect(run, found[run.label])) for run in runs}
    if len(runs) == 1:
        return {"report.html": made[runs[0].label]}
    return {f"report-{re.sub(r'[^A-Za-z0-9._-]+', '-', label)}.html": text for label, text in made.items()}
