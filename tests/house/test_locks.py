"""The locks pin every package with its hashes, and agree with each other."""

import re

import pytest

from tests.house.tree import ROOT


def pins(name: str) -> dict[str, str]:
    """Package and version, with the hashes that follow."""
    text = (ROOT / "requirements" / f"{name}.lock").read_text()
    entries = re.sub(r"^ *#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", "").splitlines()
    return dict(entry.split("==", 1) for entry in entries if entry)


@pytest.mark.parametrize("name", ["broker", "core", "spark", "dev"])
def test_every_pin_has_hashes(name: str) -> None:
    bare = [package for package, rest in pins(name).items() if "--hash=sha256:" not in rest]
    assert pins(name)
    assert not bare, f"no hash for {bare}; run requirements/update"


@pytest.mark.parametrize("name", ["broker", "core"])
def test_every_lock_is_a_part_of_dev(name: str) -> None:
    dev = pins("dev")
    apart = [package for package, rest in pins(name).items() if dev.get(package) != rest]
    assert not apart, f"{name}.lock and dev.lock disagree on {apart}; run requirements/update"


def test_spark_is_not_in_core() -> None:
    assert not {"pandas", "pyspark"} & pins("core").keys(), "who simulates must not wait for 400 MB of Spark"


def test_a_broker_needs_nothing_compiled_by_numba() -> None:
    assert not {"llvmlite", "numba", "numpy", "pyarrow"} & pins("broker").keys()
