"""`holdfast plan` from end to end."""

import json
import re
from errno import ENOSPC
from os import strerror
from pathlib import Path
from xml.etree import ElementTree

import pytest

from holdfast.cli import main
from tests.planner.test_plan import TEXT


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "net.toml"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


def run(*words: str) -> int:
    try:
        main(["plan", *words])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_a_table_a_recommendation_and_a_picture(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "net.svg"
    assert run(file, "--target", "0.5", "--what-if", "middle=0.99", "--picture", str(picture)) == 0
    text = capsys.readouterr().out
    assert "basic is enough" in text
    assert "what if middle=0.99" in text
    assert "limited most by middle" in text
    ElementTree.parse(picture)


def test_where_nothing_fails_the_plan_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steady = tmp_path / "steady.toml"
    steady.write_text(re.sub(r"^(availability|cycle_s) = .*", "", TEXT, flags=re.MULTILINE), encoding="utf-8")
    assert run(str(steady)) == 0
    assert "no broker and no link ever fails" in capsys.readouterr().out


def test_a_picture_that_cannot_be_written_leaves_the_old_one(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "pictures" / "net.svg"
    picture.parent.mkdir()
    picture.write_text("the old one")

    def half(path: Path, text: str, encoding: str) -> None:
        path.write_bytes(text.encode(encoding)[:100])
        raise OSError(ENOSPC, strerror(ENOSPC))

    monkeypatch.setattr(Path, "write_text", half)
    assert run(file, "--no-rank", "--picture", str(picture)) == 2
    assert "No space left" in capsys.readouterr().err
    assert [(each.name, each.read_text()) for each in picture.parent.iterdir()] == [("net.svg", "the old one")]


def test_json_has_every_subscriber_with_all_schemes_and_methods(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    desk = next(each for each in found["subscribers"] if each["subscriber"] == "desk")
    assert desk["method"] == "exact"
    assert desk["basic"] < desk["retransmission"] <= desk["hybrid"]
    assert desk["multipath_bound"] == pytest.approx(desk["multipath"])
    assert desk["assumed_up"]["basic"] > desk["basic"]
    times = desk["delay"]["retransmission"]
    assert [time for time, _ in times] == pytest.approx([0, 0.6, 6, 15, 30, 60])
    assert times[0][1] == pytest.approx(desk["basic"])
    assert times[-1][1] == pytest.approx(desk["retransmission"])


def test_the_ends_can_be_assumed_up(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file, "--json", "--endpoints", "assumed-up", "--no-rank") == 0
    found = json.loads(capsys.readouterr().out)
    other = next(each for each in found["subscribers"] if each["subscriber"] == "other")
    assert other["basic"] == pytest.approx(0.8)
    assert other["counted"]["basic"] == pytest.approx(0.9 * 0.8 * 0.9)


def test_a_target_that_was_asked_for_and_is_out_of_reach_is_exit_code_1(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file, "--target", "0.99999") == 1
    assert run(file, "--set", "plan.target=0.99999") == 1
    assert run(file) == 0  # nobody has asked
    assert "no scheme is enough" in capsys.readouterr().out


def test_a_new_subscriber_is_accepted_or_refused(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file, "--admit", "middle", "--wants", "kind = 'b'", "--target", "0.7") == 0
    assert run(file, "--admit", "middle", "--wants", "kind = 'b'", "--target", "0.8", "--json") == 1
    accepted, refused = capsys.readouterr().out.splitlines()
    assert accepted.startswith("accepted")
    assert json.loads(refused)["accepted"] is False


def test_who_wants_what_nobody_publishes_is_told_so(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file, "--admit", "middle", "--wants", "kind = 'z'", "--target", "0.5") == 0
    assert "nothing that is published matches" in capsys.readouterr().out


@pytest.mark.parametrize(("line", "tries"), [("", 30), ("link_tries = 2", 2)])
def test_links_ask_as_often_as_the_file_says(
    line: str, tries: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "net.toml"
    path.write_text(f'{TEXT}\n[links]\nloss = 0.5\n[reliability]\nhops = "nack"\n{line}\n', encoding="utf-8")
    assert run(str(path), "--json") == 0
    [found] = [each for each in json.loads(capsys.readouterr().out)["losses"] if each["mechanism"] == "nack"]
    link = 1 - 0.5 * 0.75**tries  # a request and its answer both arrive in a quarter of the tries
    # desk wants 0.1 events a second over one link; over two links go 1/30 to desk and 1 to the other.
    assert found["delivered"] == pytest.approx((3 * link + 31 * link**2) / 34)


@pytest.mark.parametrize(("loss", "home"), [(1.0, "east"), (0.5, "west")])  # all is lost; no link on the way
def test_gossip_where_there_is_nothing_to_gossip_about(
    tmp_path: Path, loss: float, home: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "net.toml"
    path.write_text(
        f"""
        topology = {{ kind = "line", brokers = ["west", "east"] }}
        links = {{ loss = {loss} }}
        reliability = {{ gossip = "push" }}
        client = [
            {{ id = "p", broker = "west", publish = [{{ every_s = 1, attributes = {{ n = 1 }} }}] }},
            {{ id = "s", broker = "{home}", subscriptions = ["n = 1"] }},
        ]
        """
    )
    assert run(str(path), "--json") == 0
    [found] = [each for each in json.loads(capsys.readouterr().out)["losses"] if each["mechanism"] == "gossip, push"]
    assert found["delivered"] == (0 if home == "east" else 1)


@pytest.mark.parametrize(
    "words",
    [
        ("--target", "2"),
        ("--endpoints", "sometimes"),
        ("--what-if", "remove nobody"),
        ("--what-if", "middle.mtbf_s=1e300"),
        ("--picture", "net.png"),
        ("--picture", "nowhere/net.svg"),
        ("--wants", "kind = 'a'"),
        ("--admit", "middle", "--what-if", "middle=0.9"),
        ("--admit", "middle", "--wants", "kind ="),
        ("--admit", "middle", "--wants", "kind = 'a' AND kind = 'b'"),
        ("--admit", "middle", "--spark", "--out", "predictions"),
        ("--picture", f"{'x' * 300}.svg"),
        ("--spark", "--out", "."),
        ("--set", "plan.samples=1"),
    ],
)
def test_bad_input_is_exit_code_2(file: str, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(file, *words) == 2
    assert "Traceback" not in capsys.readouterr().err
