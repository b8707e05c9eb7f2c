"""Claims and figures follow from the runs that the plans ask for, at both scales: here of runs that were made up."""

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from holdfast.pipeline.charts.lines import svg
from holdfast.pipeline.sweep.plan import SweepPlan
from holdfast.protocol.recovery.srm import counts as c
from holdfast_papers.claims import markdown
from holdfast_papers.studies import STUDIES
from holdfast_papers.study import Runs, Scale

_STANDING = (c.ASKED, c.REPAIRED, c.WANTED, c.ANSWERED)  # counts that only grow
_GAUGES = tuple(f"{name} at the end" for name in (c.FOLLOWED, c.LENGTHS, c.LONGEST, c.SHORTEST))


class _MadeUp(dict[str, Any]):
    """A row that has every metric."""

    def get(self, name: str, otherwise: Any = None) -> Any:
        if name in self or "." not in name or name.startswith(("workload.", "topology.", "reliability.", "links.")):
            return super().get(name, otherwise)
        return Random(f"{name}/{self['cell']}").uniform(50, 100)


def _rows(plan: SweepPlan) -> Runs:
    rows = []
    for number in range(len(plan)):
        cell, dice = plan.cell(number), Random(number)
        row = _MadeUp({**cell.columns, "cell": number, "seed": cell.seed})
        row |= {"owed": 10_000, "delivered": 9_000 + dice.randrange(500), "lost": 500 + dice.randrange(500)}
        row |= {"bytes": 1_000_000 + dice.randrange(1_000_000), "leaf_recovery_ratio": 0.5}
        for at in range(round(row["duration_s"] / row["slices_s"]) if "slices_s" in row else 0):
            row |= {f"slices.published.{at:06d}": 400, f"slices.owed.{at:06d}": 1_000}
            row[f"slices.delivered.{at:06d}"] = 800 + dice.randrange(190)
            row |= {f"slices.{name}.{at:06d}": 100 * (at + 1) + dice.randrange(50) for name in _STANDING}
            row |= {f"slices.{name}.{at:06d}": 10 + dice.randrange(20) for name in _GAUGES}
        rows.append(row)
    return Runs(rows)


@pytest.mark.parametrize("scale", ["quick", "paper"])
@pytest.mark.parametrize("name", ["end-to-end", "gossip"])
def test_claims_and_figures_need_no_more_than_the_plans_run(name: str, scale: Scale) -> None:
    study = STUDIES[name]
    runs: Mapping[str, Runs] = {key: _rows(plan) for key, plan in study.plans(scale).items()}
    claims = list(study.claims(runs))
    assert len({each.id for each in claims}) == len(claims)
    assert markdown(claims).count("\n") == len(claims) + 2
    titles = [chart.title for chart in study.figures(runs) if svg(chart)]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize(("name", "numbers"), [("end-to-end", range(2, 12)), ("gossip", range(3, 11))])
def test_every_figure_of_a_paper_is_drawn_by_its_own_number(name: str, numbers: range) -> None:
    study = STUDIES[name]
    runs = {key: _rows(plan) for key, plan in study.plans("quick").items()}
    titles = " ".join(chart.title for chart in study.figures(runs))
    assert [each for each in numbers if f"figure {each}" not in titles] == []
