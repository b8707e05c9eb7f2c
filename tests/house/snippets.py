"""Runs the examples in our Markdown files, so that none of them goes stale.

A fence's first word is its language; further words are ours. `python` blocks of one file share a namespace,
and one that holds `>>>` is checked as a doctest. In a `console` block each line after `$ ` is a command, run
by bash in an empty folder; the lines below it, if any, are what it must print, where `...` stands for any
text, and alone on a line for any lines. A block of any language with `file=NAME` is there for them as that
file. `/shared/`, which on a cluster all machines see, is in that folder as well.

`notest` leaves a block out (`tests/house/left_out.py` has the reason); `spark` says that it needs Spark, `slow` that it
takes long. Python blocks that need Spark are run among the commands: as one program with the python blocks before them.
In a block that is `live`, commands that end with `&` go on while the next ones run (`tests/house/live_snippets.py`),
and while those of later blocks do that are `still-live`.
"""

import doctest
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from holdfast.pipeline.session import SHORT_JVM
from tests.house import left_out
from tests.house.tree import ROOT

COMMAND_SECONDS_MAX = 900  # only so that a hanging command ends: a busy machine may take minutes to start Spark


class SnippetError(Exception):
    """An example does not do what the page says; the message shows the place and both texts."""


@dataclass(frozen=True)
class Block:
    place: str  # file and line of the fence, for messages
    line: int  # of the block's first line
    words: tuple[str, ...]  # of the fence
    text: str

    @property
    def language(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def file(self) -> str | None:
        return next((word.removeprefix("file=") for word in self.words if word.startswith("file=")), None)

    @property
    def tested(self) -> bool:
        return "notest" not in self.words

    @property
    def in_process(self) -> bool:
        """Whether it is Python that is run right here, and not among the commands."""
        return self.language == "python" and self.tested and "spark" not in self.words


def blocks(markdown: str, name: str) -> list[Block]:
    found = []
    lines = iter(enumerate(markdown.splitlines(), 1))
    for number, line in lines:
        if opening := re.match(r"( *)(```+)(.*)", line):
            indent, fence, words = opening.groups()
            inside = []
            for _, each in lines:
                if each.strip() == fence:
                    break
                inside.append(each.removeprefix(indent))
            found.append(Block(f"{name}:{number}", number + 1, tuple(words.split()), "\n".join(inside) + "\n"))
    return found


def needs_spark(found: list[Block]) -> bool:
    return any(each.tested and ("spark" in each.words or "pyspark" in each.text) for each in found)


def python_needs_spark(found: list[Block]) -> bool:
    """Of the Python that is run in this process."""
    return needs_spark([each for each in found if each.in_process])


def run_python(found: list[Block]) -> None:
    with _module("snippet") as namespace:
        for block in found:
            if block.in_process:
                (_run_doctest if ">>>" in block.text else _run_program)(block, namespace)


@contextmanager
def _module(name: str) -> Iterator[dict[str, object]]:
    """A real module, because classes defined in a block look their module up."""
    module = sys.modules[name] = ModuleType(name)
    try:
        yield module.__dict__
    finally:
        del sys.modules[name]


def _run_program(block: Block, namespace: dict[str, object]) -> None:
    padding = "\n" * (block.line - 1)  # so that a traceback shows the line in the page
    try:
        exec(compile(padding + block.text, block.place.partition(":")[0], "exec"), namespace)
    except Exception as error:
        raise SnippetError(f"{block.place}: the block raises {type(error).__name__}: {error}") from error


def _run_doctest(block: Block, namespace: dict[str, object]) -> None:
    name = block.place.partition(":")[0]
    report: list[str] = []
    test = doctest.DocTestParser().get_doctest(block.text, namespace, name, name, block.line - 1)
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append, clear_globs=False)
    namespace.update(test.globs)  # the test worked on a copy
    if report:
        raise SnippetError("".join(report))


def run_console(found: list[Block]) -> None:
    """Run a page's commands one after the other in a folder of their own, which is then thrown away."""
    with tempfile.TemporaryDirectory(prefix="holdfast-page-") as folder:
        for block in _live_ones_together(_programs_as_commands(found)):
            if block.file is not None:
                Path(folder, block.file).write_text(block.text)
            if block.language == "console" and block.tested:
                if "live" in block.words:
                    from tests.house.live_snippets import run_live

                    run_live(block.place, block.text, folder)
                    continue
                for command, expected in commands(block.text):
                    run_command(block.place, command, expected, folder)


def _programs_as_commands(found: list[Block]) -> list[Block]:
    """In the place of the last Python block that needs Spark stands the command that runs all up to there."""
    for each in found:
        if each.language == "python" and "spark" in each.words and ">>>" in each.text:
            raise SnippetError(f"{each.place}: write it as a program; what needs Spark is not run as a doctest")
    programs = [each for each in found if each.language == "python" and each.tested and ">>>" not in each.text]
    last = max((at for at, each in enumerate(programs) if not each.in_process), default=-1)
    if last < 0:
        return found
    lines = "".join(each.text for each in programs[: last + 1]).splitlines()
    command = "\n> ".join(["$ ./run python - <<'END_OF_PROGRAM'", *lines, "END_OF_PROGRAM"]) + "\n"
    command_block = replace(programs[last], words=("console", *programs[last].words[1:]), text=command)
    others = [each for each in programs[:last] if not each.in_process]
    return [command_block if each is programs[last] else each for each in found if each not in others]


def _live_ones_together(found: list[Block]) -> list[Block]:
    """A live block is one with those that are still live: it runs where the last of them stands."""
    joined: list[Block] = []
    for block in found:
        if "still-live" in block.words and block.tested:
            at = max((at for at, each in enumerate(joined) if "live" in each.words), default=None)
            if at is None:
                raise SnippetError(f"{block.place}: there is no live block before it")
            begun = joined.pop(at)
            block = replace(begun, text=begun.text + block.text)
        joined.append(block)
    return joined


def every_command(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block with the output shown below it.

    A command goes on after a backslash at the end of a line, and on lines that begin with bash's `> `.
    """
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        length = len(re.sub(r"^((.*\\\n|.*\n(?=> ))*.*)(.|\n)*", r"\1", part))
        yield re.sub(r"^> ", "", part[:length], flags=re.MULTILINE), part[length:].strip("\n")


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Those that a test can run, each after those with which the block exports something."""
    exports = ""
    for command, shown in every_command(text):
        if not command.startswith(tuple(left_out.COMMANDS)):
            yield exports + command, shown
        if command.startswith("export "):
            exports += f"{command}\n"


def as_here(command: str, folder: str) -> list[str]:
    """The command with this environment's programs in the place of `./run`; examples are those of this tree."""
    command = re.sub(r"\./run (holdfast|python)\b", r"\1", command)
    command = re.sub(r"(?<![\w./])/shared/", f"{folder}/shared/", command)
    return ["bash", "-c", re.sub(r"(?<![\w./])examples/", f"{ROOT}/examples/", command)]


def environment(folder: str) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": "100",
        "SPARK_SUBMIT_OPTS": SHORT_JVM,
        "SPARK_WORKER_DIR": f"{folder}/spark-workers",  # otherwise it is within the installation
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",  # its port is always the same
    }


def run_command(place: str, command: str, expected: str, folder: str) -> None:
    done = subprocess.run(
        as_here(command, folder),
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )
    if expected and not matches(expected, done.stdout):
        raise SnippetError(f"{place}: $ {command}\nthe page shows:\n{expected}\nit prints:\n{done.stdout}")
    if done.returncode and not expected.strip(".\n"):  # a page may show a failure, but not hide one
        raise SnippetError(f"{place}: $ {command}\nends with {done.returncode}:\n{done.stdout}")


def matches(expected: str, printed: str) -> bool:
    pattern = "".join(
        r"(.*\n)*" if line.strip() == "..." else re.escape(line.rstrip()).replace(r"\.\.\.", ".*") + "\n"
        for line in expected.strip("\n").splitlines()
    )
    found = "".join(f"{line.rstrip()}\n" for line in printed.strip("\n").splitlines())
    return re.fullmatch(pattern, found) is not None
