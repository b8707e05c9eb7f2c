"""No file of the project names a package index or a path of somebody's machine."""

import re

import pytest

from tests.house.tree import files, shown

# Taken apart, so that this file does not hold what it looks for.
INDEX_HOSTS = [".".join(parts) for parts in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"))]
LEAKS = re.compile(
    "|".join(re.escape(host) for host in INDEX_HOSTS)
    + r"|(?<![\w.])/(work|root|farm)/|(?<![\w.])/(home|Users)/\w|(?<![\w.])/opt/(pypi|wheels)"
)


def leaks(text: str) -> list[str]:
    if not LEAKS.search(text):
        return []
    return [f"{number}: {line.strip()}" for number, line in enumerate(text.splitlines(), 1) if LEAKS.search(line)]


def test_no_file_names_an_index_or_a_machine() -> None:
    found = []
    for path in files():
        content = path.read_bytes()
        if b"\0" not in content:
            found += [f"{shown(path)}:{each}" for each in leaks(content.decode(errors="replace"))]
    assert not found, "index hosts or paths of one machine:\n" + "\n".join(found)


@pytest.mark.parametrize("top", ["work", "root", "home/ann", "Users/ann"])
def test_a_machine_path_is_seen(top: str) -> None:
    assert leaks(f"see\ncd /{top}/main") == [f"2: cd /{top}/main"]


@pytest.mark.parametrize("host", INDEX_HOSTS)
def test_an_index_host_is_seen(host: str) -> None:
    assert leaks(f"--index-url https://{host}/simple") != []


def test_ordinary_paths_pass() -> None:
    assert leaks("tests/work/x, $HOME/x, /tmp/x, https://example.org/home/ann, ../root/x") == []
