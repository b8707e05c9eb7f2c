"""The examples in README.md and docs/ run and print what they show."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.house import left_out, snippets
from tests.house.snippets import Block, SnippetError, blocks
from tests.house.tree import ROOT, files, shown


def pages(needs_spark: Callable[[list[Block]], bool] = snippets.needs_spark) -> list[object]:
    found = [path for path in files() if path.suffix == ".md" and shown(path).startswith(("README.md", "docs/"))]
    return [
        pytest.param(path, id=shown(path), marks=[pytest.mark.spark] if needs_spark(read(path)) else [])
        for path in found
    ]


def read(path: Path) -> list[Block]:
    return blocks(path.read_text(), shown(path))


@pytest.mark.parametrize("path", pages(snippets.python_needs_spark))
def test_python_examples_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    snippets.run_python(read(path))


def pages_with_commands() -> list[object]:
    """Every command of a Spark page starts Spark anew, a minute for a page, and live ones start several processes.

    So these are slow. As they do not share a session, they need not run where others use Spark.
    """
    return [
        pytest.param(*page.values, id=page.id, marks=[*page.marks, apart, *slow])
        for page in pages()
        for apart in [pytest.mark.xdist_group(page.id)]  # type: ignore[attr-defined]
        for heavy in [page.marks or _is_heavy(*page.values)]  # type: ignore[attr-defined]
        for slow in [[pytest.mark.slow] if heavy else []]
    ]


def _is_heavy(path: Path) -> bool:
    return any(each.tested and {"live", "slow"} & set(each.words) for each in read(path))


@pytest.mark.parametrize("path", pages_with_commands())
def test_console_examples_run(path: Path) -> None:
    for tool in ("curl", "openssl"):
        if f"{tool} " in path.read_text() and shutil.which(tool) is None:
            pytest.skip(f"the page uses {tool}, and there is none here")
    snippets.run_console(read(path))


def test_what_is_left_out_has_a_reason() -> None:
    untested = [each for page in pages() for each in read(*page.values) if not each.tested]  # type: ignore[attr-defined]
    reasons = set(left_out.BLOCKS)
    for block in untested:
        known = {(page, text) for page, text in reasons if block.place.startswith(f"{page}:") and text in block.text}
        assert known, f"{block.place} says notest: mend it, or give the reason in tests/house/left_out.py"
        reasons -= known
    assert not reasons, "tests/house/left_out.py has reasons for blocks that are not left out"


def fake(language: str, *texts: str) -> list[Block]:
    return blocks("".join(f"Words.\n\n```{language}\n{text}\n```\n" for text in texts), "fake.md")


def test_python_blocks_of_a_page_share_a_namespace() -> None:
    snippets.run_python(fake("python", "x = 1", ">>> x + 1\n2\n>>> y = 7", "assert y == 7"))


def test_a_block_marked_notest_is_not_run() -> None:
    untested = fake("python notest", "raise ValueError")
    snippets.run_python(untested)
    assert not untested[0].tested


@pytest.mark.parametrize(
    "text",
    [
        "$ echo one\none\n$ echo two",
        "$ seq 5\n1\n...\n5",
        "$ echo took 3 s\ntook ... s",
        "$ echo one \\\n    two\none two",
        "$ cat <<END\n> one\n> END\none",
        "$ ./run python -c 'print(6 * 7)'\n42",
        "$ ls no-such-file\nls: ...",
        "$ ./run test\nnot run, so this is not compared",
        "$ git clone somewhere && exit 1",
        "$ export ONE=1\n$ export TWO=2\n$ echo $ONE $TWO\n1 2",
        "$ mkdir -p /shared/loss\n$ ls\nshared",
    ],
)
def test_a_console_block_that_is_right_passes(text: str) -> None:
    snippets.run_console(fake("console", text))


@pytest.mark.parametrize(
    ("language", "text", "complaint"),
    [
        ("python", "x = 1\nraise ValueError('no')", "fake.md:3: the block raises ValueError: no"),
        ("python", ">>> 1 + 1\n3", "Got:\n    2"),
        ("console", "$ echo one\ntwo", "the page shows:\ntwo\nit prints:\none"),
        ("console", "$ seq 3\n1\n...\n4", "it prints:\n1\n2\n3"),
        ("console", "$ true\n$ (exit 3)", "ends with 3"),
        ("console", "$ ls no-such-file\n...", "ends with 2"),
    ],
)
def test_a_block_that_is_wrong_fails(language: str, text: str, complaint: str) -> None:
    found = fake(language, text)
    with pytest.raises(SnippetError) as caught:
        snippets.run_python(found)
        snippets.run_console(found)
    assert complaint in str(caught.value)


def test_a_block_may_be_a_file_that_commands_read() -> None:
    page = "```toml file=net.toml\nseed = 7\n```\n\n```console\n$ cat net.toml\nseed = 7\n```\n"
    snippets.run_console(blocks(page, "fake.md"))


TALKS = (
    "$ {{ echo b1 ready on tcp://127.0.0.1:7001; sleep {}; }} &\n{}\n$ echo tcp://127.0.0.1:7001\ntcp://127.0.0.1:7001"
)


def test_commands_in_the_background_go_on_while_others_run() -> None:
    snippets.run_console(fake("console live", TALKS.format(100, "b1 ready on tcp://127.0.0.1:7001")))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("$ echo never mind &", "does not say that it is ready"),
        (TALKS.format(0, "b2 ready"), "the page shows:\nb2 ready"),
        (TALKS.format(100, "...").replace("$ echo tcp", "$ exit 3 #"), "the page shows"),
    ],
)
def test_what_is_wrong_with_commands_in_the_background_is_told(text: str, complaint: str) -> None:
    with pytest.raises(SnippetError) as caught:
        snippets.run_console(fake("console live", text))
    assert complaint in str(caught.value)


def test_python_that_needs_spark_runs_among_the_commands_after_the_python_before_it() -> None:
    found = [
        *fake("python", "x = 1"),
        *fake("console", "$ echo 2 > two"),
        *fake("python spark", "x += int(open('two').read())\nif x != 3:\n\n    raise ValueError(x)"),
        *fake("python spark", "open('three', 'w').write(str(x))"),
        *fake("console", "$ cat three\n3"),
        *fake("python", "raise ValueError"),
    ]
    snippets.run_console(found)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("raise ValueError('no')", "ValueError: no"), (">>> 1\n1", "fake.md:3: write it as a program")],
)
def test_python_that_needs_spark_and_is_wrong_fails(text: str, complaint: str) -> None:
    with pytest.raises(SnippetError) as caught:
        snippets.run_console(fake("python spark", text))
    assert complaint in str(caught.value)


def test_later_blocks_run_while_a_live_one_goes_on() -> None:
    begins = fake(
        "console live", "$ { echo ready on 127.0.0.1:7001; read < pipe; echo bye; } &\nready on 127.0.0.1:7001\nbye"
    )
    before, goes_on = fake("console", "$ mkfifo pipe"), fake("console still-live", "$ echo > pipe")
    program = fake("python spark still-live", "x = 1", "assert x")
    snippets.run_console([*before, *begins, *goes_on, *program])
    with pytest.raises(SnippetError, match="no live block before it"):
        snippets.run_console(goes_on)


def test_a_file_that_a_page_shows_is_there_for_its_commands() -> None:
    found = [*fake("toml file=net.toml", "x = 1"), *fake("console", "$ cat net.toml\nx = 1")]
    snippets.run_console(found)


def test_a_page_that_uses_spark_is_marked() -> None:
    assert snippets.needs_spark(fake("python", "import pyspark"))
    assert snippets.needs_spark(fake("console spark", "$ holdfast audit run"))
    assert not snippets.needs_spark(fake("python spark notest", "x = 1"))
