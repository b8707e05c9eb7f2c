"""Runs tests under every Python that this machine has: `./run python -m tests.interpreters [--found] [pytest words]`.

Interpreters are looked for on the path, in PYENV_ROOT and among those of uv. Each gets an environment of its own in the
temporary folder, with the pinned versions of requirements/dev.lock, but without Spark. Without words the rooms are
tested that differ most from one Python to the next. Exit code 1: a test failed, or there is only one interpreter.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
ROOMS = ["language", "wire", "protocol", "store", "net", "network", "matching", "sim", "cli"]
TOOLS = ["pytest", "pytest-xdist", "hypothesis", "psutil", "prometheus-client", "duckdb", "setuptools"]


def found() -> dict[str, Path]:
    """One interpreter for each version that is there."""
    places: dict[str, Path] = {}
    for version in VERSIONS:
        there = shutil.which(f"python{version}")
        candidates = [Path(there)] if there else []
        candidates += sorted(_pyenv().glob(f"versions/{version}.*/bin/python{version}"))
        candidates += [each for each in [_of_uv(version)] if each]
        for each in candidates:
            if _is(each, version):
                places[version] = each
                break
    return places


def _pyenv() -> Path:
    return Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")


def _of_uv(version: str) -> Path | None:
    uv = shutil.which("uv")
    if uv is None:
        return None
    done = subprocess.run(
        [uv, "python", "find", "--offline", version], capture_output=True, text=True, check=False, cwd="/"
    )
    return Path(done.stdout.strip()) if done.returncode == 0 else None


def _is(python: Path, version: str) -> bool:
    """pyenv's shims are there for versions that are not."""
    asked = [str(python), "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() == version
    except OSError:
        return False


def run(version: str, python: Path, words: list[str]) -> int:
    folder = Path(tempfile.gettempdir()) / f"holdfast-python-{version}"
    pinned = re.findall(r"^([\w.-]+==[^\s;]+)", (ROOT / "requirements" / "dev.lock").read_text(), re.MULTILINE)
    subprocess.run([python, "-m", "venv", folder], check=True)
    (folder / "pinned.txt").write_text("\n".join(pinned))
    pip = [folder / "bin" / "python", "-m", "pip", "install", "-qq", "-c", folder / "pinned.txt"]
    subprocess.run([*pip, *TOOLS, "-e", f"{ROOT}[sim]"], check=True)
    environment = {**os.environ, "HOLDFAST_NO_SPARK": "1"}
    # The worktree's own sources, whatever else the environment names.
    environment["PYTHONPATH"] = str(ROOT / "src")
    return subprocess.run(
        [folder / "bin" / "python", "-m", "pytest", *words], cwd=ROOT, env=environment, check=False
    ).returncode


def main(words: list[str]) -> int:
    interpreters = found()
    print("found:", ", ".join(f"{version} ({where})" for version, where in interpreters.items()), flush=True)
    if words == ["--found"]:
        return 0
    codes = {}
    for version, python in interpreters.items():
        print(f"== Python {version}", flush=True)
        codes[version] = run(version, python, words or [f"tests/{room}" for room in ROOMS])
    for version, code in codes.items():
        print(f"Python {version}: {'passed' if code == 0 else f'pytest ended with {code}'}")
    return 1 if any(codes.values()) or len(codes) < 2 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
