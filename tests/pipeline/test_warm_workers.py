import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.pipeline import warm_workers

pytestmark = pytest.mark.spark


def test_workers_load_once_for_an_application_what_they_are_told(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_workers, "_warmed", set())

    def load() -> None:
        (tmp_path / str(os.getpid())).touch()

    thread = warm_workers.warm_workers(spark, load)
    assert thread is not None
    thread.join()
    loaded = {int(path.name) for path in tmp_path.iterdir()}
    assert loaded and os.getpid() not in loaded
    assert warm_workers.warm_workers(spark, load) is None
