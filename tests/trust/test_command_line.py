"""What a broker denies somebody at a terminal is said there."""

from pathlib import Path

import pytest

import holdfast
from holdfast.cli import main

RIGHTS = """
[[right]]
who = "anonymous"
publish = "desk = 'a'"
subscribe = "class = 'stock'"
narrow = true
"""


def test_refused_events_and_a_narrowed_subscription_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rights.toml").write_text(RIGHTS)
    with holdfast.SyncBroker(rights=tmp_path / "rights.toml") as broker:
        with pytest.raises(SystemExit) as left:
            main(["pub", '{"desk": "a"}', '{"desk": "b"}', "--broker", broker.address, "--json"])
        printed = capsys.readouterr()
        assert left.value.code == 1
        assert printed.out == '{"published": 1, "skipped": 0, "refused": 1}\n'
        assert printed.err.startswith("an event was refused: ")
        with pytest.raises(SystemExit) as left:
            main(["sub", "price > 5", "--broker", broker.address, "--count", "1", "--timeout", "0.1"])
        told = capsys.readouterr().err
        assert "narrowed to class = 'stock' AND price > 5: " in told
