"""The sweep file and plans from Python: what they mean, and what is wrong with them, all at once."""

import re
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.errors import InputError
from holdfast.network.document import document_of
from holdfast.network.problems import NetworkError
from holdfast.pipeline.sweep.check import TRIED_MAX, plan
from holdfast.pipeline.sweep.file import SWEEP, SweepFile, load_sweep, parse_sweep
from holdfast.pipeline.sweep.plan import CELLS_MAX, preset_document

NETWORK: dict[str, Any] = {
    "duration_s": 2,
    "topology": {"kind": "line", "brokers": 3},
    "clients": {},
    "workload": {"kind": "patterns", "rate_per_s": 5},
}

FILE = """\
preset = "quickstart"
seeds = [7, 9]

[set]
duration_s = 3

[grid]
links.loss = [0, 0.1]
"links.delay_ms" = [
    4,
    [5, 10],
]

[[variant]]
name = "tree"

[[variant]]
name = "graph"
set = { routing = "destinations", protocol.heartbeat_s = 0.5 }

[[chart]]
y = "delivery_ratio"
x = "links.loss"
"""


def parsed(text: str) -> SweepFile:
    return parse_sweep(document_of(text, "sweep.toml"))


def problems_of(text: str) -> list[str]:
    with pytest.raises(NetworkError) as caught:
        parsed(text)
    assert str(caught.value).startswith("sweep.toml: ")
    return [str(each) for each in caught.value.problems]


def test_every_value_meets_every_other_with_every_seed() -> None:
    sweep = parsed(FILE).plan
    cells = [sweep.cell(number) for number in range(len(sweep))]
    assert len(cells) == 2 * 2 * 2 * 2
    seen = {
        (each.columns["variant"], each.columns["links.loss"], each.columns["links.delay_ms"], each.seed)
        for each in cells
    }
    assert len(seen) == 16
    assert [each.seed for each in cells[:4]] == [7, 9, 7, 9]
    assert dict(cells[-1].settings) == {
        "duration_s": 3,
        "routing": "destinations",
        "protocol.heartbeat_s": 0.5,
        "links.loss": 0.1,
        "links.delay_ms": [5, 10],
    }


def test_a_cell_is_the_network_with_its_settings() -> None:
    sweep = parsed(FILE).plan
    network = sweep.network_of(sweep.cell(15))
    assert (network.seed, network.duration_us, network.routing) == (9, 3_000_000, "destinations")
    assert network.protocol.heartbeat_us == 500_000
    assert network.links[0].loss_ratio == 0.1 and 5_000 <= network.links[0].delay_us <= 10_000


def test_settings_become_typed_columns_and_what_is_no_scalar_json() -> None:
    sweep = parsed(FILE).plan
    assert sweep.columns == {
        "variant": "string",
        "links.loss": "double",
        "links.delay_ms": "string",
        "routing": "string",
        "protocol.heartbeat_s": "double",
        "duration_s": "long",
    }
    first, last = sweep.cell(0).columns, sweep.cell(15).columns
    assert (first["links.delay_ms"], last["links.delay_ms"]) == ("4", "[5, 10]")
    assert (first["links.loss"], type(first["links.loss"])) == (0.0, float)


def test_a_column_says_what_the_network_file_says_where_a_variant_is_silent() -> None:
    sweep = parsed(FILE).plan
    assert sweep.cell(0).columns["routing"] == "subscriptions"
    assert sweep.cell(0).columns["protocol.heartbeat_s"] is None  # nor does the file: it is the default


def test_a_plan_from_python_is_the_same_as_from_a_file() -> None:
    made = plan(
        preset_document("quickstart"),
        {"links.loss": [0, 0.1], "links.delay_ms": [4, [5, 10]]},
        variants={"tree": {}, "graph": {"routing": "destinations", "protocol.heartbeat_s": 0.5}},
        seeds=[7, 9],
        settings={"duration_s": 3},
    )
    assert made.as_json() == parsed(FILE).plan.as_json()
    assert [made.cell(number) for number in range(16)] == [parsed(FILE).plan.cell(number) for number in range(16)]


def test_seeds_are_counted_from_one() -> None:
    assert plan(NETWORK, seeds=3).seeds == (1, 2, 3)
    assert parsed('preset = "quickstart"\nseeds = 2').plan.seeds == (1, 2)
    assert parsed('preset = "quickstart"').plan.seeds == (1,)


def test_all_problems_are_told_at_once_with_their_lines() -> None:
    text = (
        FILE.replace("seeds = [7, 9]", "seed = 3").replace("[0, 0.1]", "[0, 10]").replace("    4,\n", '    "fast",\n')
    )
    text = text.replace("heartbeat_s = 0.5", "hartbeat_s = 0.5").replace('x = "links.loss"', 'x = "links.los"')
    assert problems_of(text) == [
        'line 2, seed: unknown key; did you mean "seeds"?',
        "line 8, grid.links.loss.1: found 10, expected a number from 0 to 1; write 10 % as 0.1",
        'line 10, grid.links.delay_ms.0: found "fast", expected a number of milliseconds from 0 to 3,600,000',
        'line 19, variant.1.set.protocol.hartbeat_s: unknown key "hartbeat_s"; did you mean "heartbeat_s"?',
        'line 23, chart.0.x: "links.los" does not vary in this sweep; did you mean "links.loss"?',
    ]


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ('preset = "quickstart"', "", '"network" is missing, expected a path in quotes; or preset = "quickstart"'),
        ('preset = "quickstart"', 'preset = "quikstart"', 'line 1, preset: found "quikstart", expected'),
        ('preset = "quickstart"', 'network = "a.toml"', "line 1, network: there is no file a.toml"),
        ("links.loss = [0, 0.1]", "links.loss = 0.1", "line 8, grid.links.loss: found 0.1, expected a list of values"),
        ("links.loss = [0, 0.1]", "links.loss = []", "line 8, grid.links.loss: an empty list, expected values"),
        ("links.loss = [0, 0.1]", "links.loss = [0.1, 0.1]", "line 8, grid.links.loss.1: 0.1 is there twice"),
        ("links.loss = [0, 0.1]", "seed = [1, 2]", "line 8, grid.seed.0: the seed of each run comes from `seeds`"),
        ("links.loss = [0, 0.1]", "duration_s = [1]", "line 8, grid.duration_s.0: [set] sets it, too"),
        ("links.loss = [0, 0.1]", 'routing = ["destinations"]', "line 8, grid.routing.0: [[variant]] sets it, too"),
        ("links.loss = [0, 0.1]", "fault.3.at_s = [1]", "line 8, grid.fault.3.at_s.0: fault is a list of 1, counted"),
        ("duration_s = 3", "duration_s = -3", "line 5, set.duration_s: found -3, expected"),
        ("duration_s = 3", "clients = 3", "line 5, set.clients: found 3, expected a table"),
        ('name = "graph"', 'name = "tree"', "line 19, variant.1.set.routing: \"tree\" is there twice"),
        ('name = "graph"', "", 'line 17, variant.1: "name" is missing'),
        ("seeds = [7, 9]", "seeds = [7, 7]", "line 2, seeds: 7 is there twice; the same seed gives the same run"),
        ("seeds = [7, 9]", "seeds = 0", "line 2, seeds: found 0, expected a whole number from 1 to 10,000"),
        ('y = "delivery_ratio"', 'y = "delivery_ratio"\nlog = "z"', 'chart.0.log: found "z", expected "x" or "y"'),
        ('y = "delivery_ratio"', "", 'chart.0: "y" is missing'),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(before: str, after: str, problem: str) -> None:
    assert before in FILE
    found = problems_of(FILE.replace(before, after, 1))
    assert any(problem in each for each in found), found


def test_a_mistake_of_the_network_file_is_told_with_its_own_line(tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text("duration_s = 1\n[links]\nloss = 5\n")
    (tmp_path / "sweep.toml").write_text('seeds = 2\nnetwork = "net.toml"\n')
    with pytest.raises(NetworkError) as caught:
        load_sweep(tmp_path / "sweep.toml")
    (about_loss,) = [str(each) for each in caught.value.problems if "loss" in str(each)]
    place = f"line 2, network: {(tmp_path / 'net.toml').resolve()} line 3, links.loss"
    assert about_loss == f"{place}: found 5, expected a number from 0 to 1; write 5 % as 0.05"


def test_what_only_fails_together_is_told_with_the_combination() -> None:
    text = (
        'preset = "epidemic-100"\n[grid]\ntopology.kind = ["tree", "ring"]\nrouting = ["subscriptions", "destinations"]'
    )
    found = problems_of(text)
    assert any('(with topology.kind = "ring", routing = "subscriptions")' in each for each in found), found
    assert not any('"destinations")' in each and '"tree"' in each for each in found)


def test_every_value_of_a_large_grid_is_tried() -> None:
    many = list(range(1, TRIED_MAX + 2))
    with pytest.raises(NetworkError) as caught:
        plan(NETWORK, {"links.delay_ms": many, "links.loss": [0, 0.1, 7]}, variants={"a": {}, "b": {"routing": "x"}})
    keys = {each.key for each in caught.value.problems}
    assert keys == {"grid.links.loss", "variant.b.routing"}


def test_too_many_runs_are_refused_with_their_number() -> None:
    with pytest.raises(NetworkError, match=f"101 x 1,000 seeds are 101,000 runs; the limit is {CELLS_MAX:,}"):
        plan(NETWORK, {"links.delay_ms": list(range(1, 102))}, seeds=1_000)


def test_a_missing_sweep_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        load_sweep(tmp_path / "sweep.toml")


def test_a_chart_may_take_marks_from_elsewhere() -> None:
    marks = '[[chart.marks]]\nname = "paper 001"\nof = "tree"\npoints = [[0, 1], [0.1, 0.56]]\n'
    (chart,) = parsed(FILE + 'by = "variant"\nlog = "y"\ny_range = [0.1, 1]\n' + marks).charts
    assert (chart.by, chart.log, chart.y_range) == (("variant",), "y", (0.1, 1.0))
    assert chart.marks[0].points == ((0.0, 1.0), (0.1, 0.56)) and chart.marks[0].of == "tree"


def test_the_manual_names_every_key() -> None:
    page = (Path(__file__).parents[2] / "docs" / "sweep.md").read_text()
    tables = [SWEEP, *(SWEEP.all_keys[name].shape.table for name in ("variant", "chart"))]  # type: ignore[attr-defined]
    missing = [key for table in tables for key in table.all_keys if not re.search(rf"`\[*(chart\.)?{key}\b", page)]
    assert missing == []
