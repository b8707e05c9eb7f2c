"""What is missing is named with the extra that brings it, and the extras are what `pyproject.toml` installs."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from holdfast import __version__
from holdfast.model.errors import HoldfastError, MissingExtraError
from holdfast.model.extras import EXTRA_OF, extras_named, require
from tests.house.tree import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
INCLUDED = {
    "broker": ["sim", "spark", "nemesis", "trust", "console", "all"],
    "sim": ["spark", "all"],
    "spark": ["all"],
    "zookeeper": ["all"],
    "nemesis": ["all"],
    "trust": ["all"],
    "nats": ["all"],
    "mqtt": ["all"],
    "redis": ["all"],
    "rabbitmq": ["all"],
    "zenoh": ["all"],
    "stomp": ["all"],
    "console": ["all"],
    "regex": ["all"],
    "delta": ["all"],
    "iceberg": ["all"],
    "connect": ["all"],
}
NOT_IMPORTED = {"uvloop"}  # taken where it is installed, and not missed elsewhere
BY_ANOTHER = {"llvmlite", "grpc"}  # come with numba and with pyspark[connect]
DISTRIBUTIONS = {  # that are called otherwise than what they bring
    "pyjwt": "jwt",
    "paho-mqtt": "paho",
    "nats-py": "nats",
    "aio-pika": "aio_pika",
    "eclipse-zenoh": "zenoh",
    "google-re2": "re2",
}


def names(requirements: list[str]) -> set[str]:
    found = [re.split(r"[^\w-]", each)[0] for each in requirements]
    return {DISTRIBUTIONS.get(each, each) for each in found}


def without(packages: set[str], program: str) -> subprocess.CompletedProcess[str]:
    """Run a program where these packages cannot be found."""
    hidden = f"""
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
import importlib.util
_find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in {packages!r} else _find(name, package)
sys.meta_path.insert(0, Hidden())
"""
    return subprocess.run([sys.executable, "-c", hidden + program], capture_output=True, check=False, text=True)


def test_every_extra_installs_what_it_is_said_to_bring() -> None:
    extras = {name: names(wanted) for name, wanted in PROJECT["optional-dependencies"].items()}
    for package, extra in EXTRA_OF.items():
        assert package in extras[extra] | BY_ANOTHER
    for extra in INCLUDED:
        assert extras[extra] <= EXTRA_OF.keys() | NOT_IMPORTED


def test_an_extra_includes_the_smaller_ones() -> None:
    extras = {name: set(wanted) for name, wanted in PROJECT["optional-dependencies"].items()}
    for smaller, larger in INCLUDED.items():
        for each in larger:
            assert extras[smaller] <= extras[each], f"{each} lacks {extras[smaller] - extras[each]}"


def test_a_client_depends_on_msgspec_alone() -> None:
    assert PROJECT["dependencies"] == ["msgspec"]
    program = "import holdfast; holdfast.connect, holdfast.connect_sync, holdfast.parse; print(holdfast.connect)"
    done = without(EXTRA_OF.keys() | NOT_IMPORTED, program)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_broker_needs_its_extra_and_no_other() -> None:
    program = "from holdfast.cli import main; import holdfast.net.node; main(['broker', '--help'])"
    others = {package for package, extra in EXTRA_OF.items() if extra != "broker"}
    done = without(others, program)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("missing", "words", "told"),
    [
        ({"typer", "rich"}, ["sub", "a = 1"], "pip install 'holdfast[broker]'"),
        ({"numba", "numpy", "pyarrow", "llvmlite"}, ["plan", "net.toml"], "pip install 'holdfast[sim]'"),
        ({"pyspark"}, ["match", "a", "b", "--out", "c", "--engine", "spark"], "pip install 'holdfast[spark]'"),
        ({"pyarrow", "numpy"}, ["match", "a", "b", "--out", "c"], "pip install 'holdfast[sim]'"),
        ({"pyarrow", "numpy"}, ["audit", "run-1"], "pip install 'holdfast[sim]'"),
        ({"duckdb", "pyarrow", "numpy"}, ["demo"], "pip install 'holdfast[sim]'"),
    ],
)
def test_a_verb_names_the_extra_that_it_lacks(missing: set[str], words: list[str], told: str, tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text('[topology]\nkind = "line"\nbrokers = 2\n')
    words = [str(tmp_path / word) if word.endswith(".toml") else word for word in words]
    done = without(missing, f"from holdfast.cli import main; main({words!r})")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("holdfast: this needs ") and told in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("program", "extra"),
    [("from holdfast import Matcher", "sim"), ("import holdfast.spark", "spark")],
)
def test_python_programs_get_an_import_error_with_the_extra(program: str, extra: str) -> None:
    done = without({"numpy", "numba", "pyarrow", "pyspark", "pandas"}, program)
    assert f"pip install 'holdfast[{extra}]'" in done.stderr.splitlines()[-1]


def test_a_missing_extra_is_an_import_error_and_one_of_ours() -> None:
    assert issubclass(MissingExtraError, ImportError) and issubclass(MissingExtraError, HoldfastError)


def test_what_we_do_not_know_stays_as_it_is() -> None:
    with pytest.raises(ModuleNotFoundError, match="nowhere"), extras_named():
        raise ModuleNotFoundError("No module named 'nowhere'", name="nowhere")
    require("typer")


def test_the_studies_have_the_version_of_the_product() -> None:
    papers = tomllib.loads((ROOT / "papers" / "pyproject.toml").read_text())["project"]
    assert papers["version"] == __version__
    series = ".".join(__version__.split(".")[:2])
    assert papers["dependencies"] == [f"holdfast[spark]=={series}.*"]
