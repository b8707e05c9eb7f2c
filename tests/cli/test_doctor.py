"""`holdfast doctor` finds what is wrong with a machine, and says what to do."""

import json
import os
import resource
import shutil
import socket
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import machine_checks, main
from holdfast.cli.machine_checks import Finding
from holdfast.cli.running_brokers import exposed


def doctor(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[dict[str, str]]]:
    code = 0
    try:
        main(["doctor", "--json", *arguments])
    except SystemExit as end:
        code = int(end.code or 0)
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is (code == 0)
    return code, found["findings"]


def of(findings: list[dict[str, str]], check: str, level: str) -> list[dict[str, str]]:
    return [each for each in findings if (each["check"], each["level"]) == (check, level)]


def test_a_machine_that_is_well_has_no_failures_and_nothing_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    code, findings = doctor(capsys, "--no-spark")
    assert code == 0
    assert {each["check"] for each in findings} >= {"python", "numba cache", "clock", "port", "open files", "disk"}
    assert all(bool(each["advice"]) is (each["level"] != "ok") for each in findings)


def test_several_things_that_are_wrong_are_all_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(dir: Path) -> None:
        raise OSError(f"read-only file system: {dir}")

    monkeypatch.setattr(resource, "getrlimit", lambda what: (128, 128))
    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, findings = doctor(capsys, "--no-spark", "--port", port)
    assert code == 1
    assert port in of(findings, "port", "fail")[0]["found"]
    assert "ulimit -n" in of(findings, "open files", "fail")[0]["advice"]
    assert "NUMBA_CACHE_DIR" in of(findings, "numba cache", "fail")[0]["advice"]


def test_a_java_that_is_not_there_is_told_with_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (found,) = machine_checks.java()
    assert (found.check, found.level) == ("java", "fail")
    assert "apt-get install" in found.advice


def test_without_pyspark_the_rest_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_checks, "find_spec", lambda name: None)
    (found,) = machine_checks.java()
    assert (found.check, found.level) == ("spark", "warn")


@pytest.mark.slow
@pytest.mark.spark
def test_spark_starts_here() -> None:
    assert [(each.check, each.level) for each in machine_checks.java()] == [("java", "ok"), ("spark", "ok")]


@pytest.mark.parametrize(("free", "level"), [(1, "fail"), (2**30, "warn"), (2**40, "ok")])
def test_a_disk_is_judged_by_what_is_free(free: int, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(2**41, 0, free))
    assert {each.level for each in machine_checks.disk()} == {level}


@pytest.mark.parametrize(
    ("readings", "now_s", "unsynchronised", "level"),
    [
        (lambda: 1, 2e9, False, "ok"),
        (lambda: 1, 2e9, True, "warn"),
        (lambda: 1, 0.0, False, "fail"),
        (iter(range(10**6, 0, -1)).__next__, 2e9, False, "fail"),
    ],
)
def test_a_clock_is_judged(
    readings: Any, now_s: float, unsynchronised: bool, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.monotonic_ns", readings)
    monkeypatch.setattr("time.time", lambda: now_s)
    monkeypatch.setattr(machine_checks, "_unsynchronised", lambda: unsynchronised)
    (found,) = machine_checks.clock()
    assert found.level == level


def test_the_kernel_can_be_asked_about_its_clock() -> None:
    assert machine_checks._unsynchronised() in (True, False)


def test_a_finding_for_people_is_a_line_and_below_it_what_to_do() -> None:
    from holdfast.cli.doctor import _line

    found = _line(Finding("clock", "warn", "not kept right", "set it"))
    assert [line.split() for line in found.splitlines()] == [["warn", "clock", "not", "kept", "right"], ["set", "it"]]


@pytest.mark.slow
def test_nothing_is_left_to_compile_after_compile(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def holdfast(*words: str) -> set[Path]:
        program = [sys.executable, "-c", "from holdfast.cli import main; main()"]
        subprocess.run([*program, *words], cwd=tmp_path, env=environment, capture_output=True, check=True)
        return set((tmp_path / "cache").rglob("*.nbc"))

    compiled = holdfast("doctor", "--compile")
    assert compiled
    holdfast("init", "net.toml")
    holdfast("init", "--preset", "planning-10", "plan.toml")
    assert holdfast("sim", "net.toml") == holdfast("plan", "plan.toml") == compiled
    assert holdfast("plan", "plan.toml", "--set", "topology.brokers=201") == compiled  # where worlds are drawn
    (tmp_path / "events.jsonl").write_text('{"id": "one", "symbol": "S1", "price": 9.5}\n{"id": "two", "price": 12}')
    wishes = [f"price > {bound} AND price < {bound + 9}" for bound in range(12)] + ["symbol LIKE 'S%' AND price > 1"]
    rows = [json.dumps({"id": f"w{at}", "condition": each}) for at, each in enumerate(wishes)]
    (tmp_path / "wishes.jsonl").write_text("\n".join(rows))
    for words in (["--out", "pairs"], ["--out", "counts", "--counts"]):
        assert holdfast("match", "events.jsonl", "wishes.jsonl", "--key", "id", *words) == compiled


@pytest.mark.parametrize(
    ("words", "warned"),
    [
        ("holdfast broker --id b1 --listen tcp://0.0.0.0:7001", [("b1", "tcp://0.0.0.0:7001")]),
        ("python -m holdfast broker --id=b1 --listen=udp://broker.example:7001", [("b1", "udp://broker.example:7001")]),
        ("holdfast broker --id b1 --listen tls://0.0.0.0:7001 --certificate c", [("b1", "tls://0.0.0.0:7001")]),
        ("holdfast broker --id b1 --listen tls://0.0.0.0:7001 --ca ca.pem", []),
        ("holdfast broker --id b1 --listen tcp://0.0.0.0:7001 --broker-key=k", []),
        ("holdfast broker --id b1 --listen tcp://127.0.0.1:7001 --listen tcp://[::1]:7001", []),
        ("holdfast broker --id b1", []),
        ("holdfast pub --broker tcp://0.0.0.0:7001", []),
        ("another broker --listen tcp://0.0.0.0:7001", []),
    ],
)
def test_a_broker_that_others_reach_and_that_believes_everybody_is_a_warning(
    words: str, warned: list[tuple[str, str]]
) -> None:
    assert list(exposed([words.split(), ["sh"], []])) == warned
