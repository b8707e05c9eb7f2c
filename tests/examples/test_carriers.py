"""The programs over other people's buses, before and after: they print the same readings."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.carriers.servers import running
from tests.examples.test_examples import example


def test_the_nats_programs_print_the_hot_readings(tmp_path: Path) -> None:
    with running("nats", tmp_path) as server:
        before = example("carriers/nats_before.py", tmp_path, server.address)
        after = example("carriers/nats_after.py", tmp_path, server.address)
    assert before.split() == ["31", "33"]
    assert after.splitlines() == ["31", "33", "lost: []"]


@pytest.mark.slow
def test_the_mqtt_programs_print_the_hot_readings(tmp_path: Path) -> None:
    with running("mqtt", tmp_path) as server:
        place = urlsplit(server.address)
        before = example("carriers/mqtt_before.py", tmp_path, str(place.hostname), str(place.port))
        after = example("carriers/mqtt_after.py", tmp_path, server.address)
    assert before.split() == ["31", "33"]
    assert after.splitlines() == ["31", "33", "lost: []"]
