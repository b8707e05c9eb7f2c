"""`holdfast init` and `holdfast check`, as people run them."""

import json
from pathlib import Path

import pytest

from holdfast import cli
from holdfast.network.presets import PRESETS, preset_text


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        cli.main([str(each) for each in words])
    captured = capsys.readouterr()
    return int(caught.value.code or 0), captured.out, captured.err


@pytest.mark.parametrize("name", PRESETS)
def test_what_init_writes_check_accepts(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "net.toml"
    assert run(capsys, "init", "--preset", name, file)[0] == 0
    assert file.read_text() == preset_text(name)
    code, out, err = run(capsys, "check", file)
    assert (code, err) == (0, "") and out.startswith(f"network       {name}, ")


def test_init_writes_the_quickstart_to_net_toml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capsys, "init")
    assert code == 0 and "next: holdfast check net.toml" in out
    assert (tmp_path / "net.toml").read_text() == preset_text("quickstart")


def test_init_does_not_overwrite_unless_it_must(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "net.toml"
    file.write_text("mine")
    code, out, err = run(capsys, "init", file)
    assert (code, out) == (2, "") and "--force" in err
    assert file.read_text() == "mine"
    assert run(capsys, "init", "--force", file)[0] == 0
    assert file.read_text() == preset_text("quickstart")


def test_init_lists_the_presets_when_a_name_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "init", "--preset", "wan-13", tmp_path / "net.toml")
    assert code == 2 and 'did you mean "wan-12"?' in err and "planning-10" in err
    assert not (tmp_path / "net.toml").exists()


def test_init_says_when_it_cannot_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "init", tmp_path / "no" / "net.toml")
    assert code == 2 and "cannot be written" in err


def test_check_takes_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "net.toml"
    file.write_text(preset_text("epidemic-100"))
    code, out, _ = run(capsys, "check", file, "--set", "topology.brokers=40", "--set", "routing=destinations", "--json")
    found = json.loads(out)
    assert code == 0 and found["ok"] is True
    assert (found["brokers"], found["routing"], found["publications_per_s"]) == (40, "destinations", 2_000)


def test_check_tells_all_problems_and_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "net.toml"
    file.write_text('seed = -1\n[topology]\nkind = "tree"\nbrokers = 5\n[links]\nloss = 5\n')
    code, out, err = run(capsys, "check", file)
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        f"holdfast: {file}: 2 problems",
        "  line 1, seed: found -1, expected a whole number from 0 to 9,223,372,036,854,775,807",
        "  line 6, links.loss: found 5, expected a number from 0 to 1; write 5 % as 0.05",
    ]
    code, out, err = run(capsys, "check", file, "--json")
    assert (code, err) == (2, "")
    assert [(each["key"], each["line"]) for each in json.loads(out)["problems"]] == [("seed", 1), ("links.loss", 6)]


def test_check_shows_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "net.toml"
    file.write_text(
        'topology = { brokers = 1 }\n[[client]]\nid = "x"\nbroker = "b1"\nsubscriptions = ["a < 1 AND a > 2"]\n'
    )
    code, out, _ = run(capsys, "check", file)
    assert code == 0 and "warning       client.0.subscriptions.0: this subscription can never match" in out


def test_check_of_a_missing_file_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "check", tmp_path / "net.toml")
    assert code == 2 and "holdfast init writes one" in err
