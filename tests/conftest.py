"""For every test: one Spark session in the whole run, the switch that does without Spark, and Hypothesis
set so that a run today and a run tomorrow try the same examples.
"""

import gc
import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

# Of a session whose queries have a few rows each. To write a query as Java and to compile that takes Spark far longer
# than to interpret it; the cluster's jobs and the pages' commands, which are programs, have it compiled. And nobody
# doubts the byte code of Spark's own classes.
_SMALL_QUERIES = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.defaultJavaOptions": "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote -Xmn512m",
}
# Groups that take longest: each runs in one process, and would keep the others waiting at the end if it began late.
# All that use Spark are one group: a second session would have to be started and warmed up again.
_LONG_GROUPS = ("spark", "audit", "prediction")
# Even so Spark's tests end last, one after the other, while the other processes have nothing left to do. So those give
# way to them: Spark gets about half as much again of two busy cores, and the others still get two fifths.
_NICENESS_BESIDE_SPARK = 3
_MAY_GIVE_WAY = pytest.StashKey[bool]()
# In these folders tests wait for networks, processes and browsers more than they compute. One after the other they
# would leave the cores idle, for which all the rest would then wait.
_WAITING = tuple(f"tests/{each}/" for each in "carriers console demo examples nemesis net stories trust".split())

settings.register_profile("same each time", derandomize=True, database=None, deadline=None)
settings.load_profile("same each time")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Nothing that is made while nine thousand tests are collected is garbage before the end.

    So the collector looks at none of it, neither meanwhile nor whenever a test makes it run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses and before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
        if "traces" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group("audit"))  # nineteen runs and their audit, made once
        if item.get_closest_marker("spark"):
            if not item.get_closest_marker("xdist_group"):
                item.add_marker(pytest.mark.xdist_group("spark"))
            if os.environ.get("HOLDFAST_NO_SPARK") == "1":
                item.add_marker(pytest.mark.skip(reason="HOLDFAST_NO_SPARK=1"))
        if not item.get_closest_marker("xdist_group") and _shares_with_its_module(item):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    if "PYTEST_XDIST_WORKER" in os.environ:  # one process alone makes what modules share once if they stay together
        items[:] = _spread(items)
    items.sort(key=_turn)


def _spread(items: list[pytest.Item]) -> list[pytest.Item]:
    """Those that wait evenly among those that compute, each in their order."""
    parts: tuple[list[pytest.Item], list[pytest.Item]] = ([], [])
    for each in items:
        parts[each.nodeid.startswith(_WAITING)].append(each)
    places = [(at / len(part), each) for part in parts for at, each in enumerate(part)]
    return [each for _, each in sorted(places, key=lambda place: place[0])]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """A process that begins with other tests than Spark's gives way to the one that has those."""
    if "PYTEST_XDIST_WORKER" in os.environ and item.config.stash.setdefault(_MAY_GIVE_WAY, True):
        item.config.stash[_MAY_GIVE_WAY] = False
        group = item.get_closest_marker("xdist_group")
        if group is None or group.args[0] != "spark":
            os.nice(_NICENESS_BESIDE_SPARK)


def _shares_with_its_module(item: Any) -> bool:
    """What a module makes once for its tests is made once if they run in one process."""
    fixtures = item._fixtureinfo.name2fixturedefs.values()  # nothing public tells their scope
    return any(found[-1].scope == "module" for found in fixtures)


def _turn(item: pytest.Item) -> int:
    """Long groups first, and the rest as it was."""
    group = item.get_closest_marker("xdist_group")
    return _LONG_GROUPS.index(group.args[0]) if group and group.args[0] in _LONG_GROUPS else len(_LONG_GROUPS)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A local Spark session. A test that takes it needs no `spark` marker."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java, and there is none here")
    pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    from holdfast.pipeline.session import session as start

    warehouse = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    session = start("holdfast tests", "local[2]", warehouse | _SMALL_QUERIES, profile="test")
    yield session
    session.stop()
