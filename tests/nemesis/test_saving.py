"""The file of runs: each run is added as it ends, once, and a campaign that was stopped goes on where it was."""

from collections import Counter
from pathlib import Path

import pytest

from holdfast.model.errors import InputError
from holdfast.nemesis import campaign as campaigns
from holdfast.nemesis.campaign import AttackRun, Campaign, run_all
from holdfast.nemesis.judge.verdict import Judgement
from holdfast.nemesis.modes import MODES, modes_named
from holdfast.nemesis.report import save, saved

CAMPAIGN = Campaign("net.toml", modes_named("strict,durable"), 4, 7)


def run(mode: str, seed: int, broken: str = "") -> AttackRun:
    verdict = Judgement(events=10, owed=20, delivered=19, named=Counter({"by number": 1}))
    verdict.broken += [broken] if broken else []
    return AttackRun(MODES[mode], seed, CAMPAIGN.again(MODES[mode], seed), verdict=verdict, struck=Counter({"cut": 2}))


def test_runs_are_summed_by_mode_and_named_by_their_commands(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    for mode, seed in (("durable", 7), ("strict", 7), ("strict", 8)):
        save(path, CAMPAIGN, run(mode, seed, "2 events were delivered twice" if seed == 8 else ""))
    found = saved(path)
    assert [(row["mode"], row["nemeses"], row["seeds"], row["owed"], row["named"]) for row in found["rows"]] == [
        ("strict", 2, [7, 8], 40, 2),
        ("durable", 1, [7], 20, 1),
    ]
    assert found["rows"][0]["kinds"] == {"cut": 4}
    assert found["runs"][2]["again"] == "holdfast nemesis net.toml --modes strict --seed 8 --minutes 1"
    assert [each["broken"] for each in found["runs"]] == [[], [], ["2 events were delivered twice"]]
    assert list(tmp_path.iterdir()) == [path]


def test_a_campaign_makes_the_runs_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaigns, "_run", lambda campaign, mode, seed, *rest: run(mode.name, seed))
    ended: list[str] = []
    made = {CAMPAIGN.again(MODES["strict"], 7)}
    runs = run_all(CAMPAIGN, lambda coroutine: None, lambda line: None, lambda each: ended.append(each.again), made)
    assert [(each.mode.name, each.seed) for each in runs] == [("durable", 7), ("strict", 8), ("durable", 8)]
    assert ended == [each.again for each in runs]


def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.json"
    for text in ("{}", "no json", '{"runs": [1], "rows": []}'):
        path.write_text(text)
        with pytest.raises(InputError, match="is no file that holdfast nemesis wrote"):
            save(path, CAMPAIGN, run("strict", 7))
        assert path.read_text() == text
