"""Wrap the prose of our Markdown pages at 120 columns.

    ./run python -m tests.house.wrap

wraps all pages, or those that it is given; a test fails when a page is not wrapped. Code blocks, tables, headings,
link definitions and comments stay as they are. A line never breaks inside `code`, a figure or a quantity.
"""

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from tests.house.tree import files, shown

COLUMNS = 120  # as in our Python code
LEFT_ALONE = (  # whoever generates a page wraps it; in the changelog a change is a line, so that branches merge
    "docs/api.md",
    "docs/benchmarks.md",
    "docs/network-file.md",
    "docs/reproduction/",
    "CHANGELOG.md",
)
_FENCE = re.compile(r" *(```+)")
_AS_IT_IS = re.compile(r"#|\||\[[^\]]+\]: |<!--|    ")
_ITEM = re.compile(r"(\s*)([-*] |\d+\. )?")
_UNBROKEN = re.compile(r"`[^`]+`|\[[^\[\]]+\]\[[^\]]+\]|\d (?:%|s\b|ms\b|KiB|MiB|GiB|MB)")
_STARTS_A_BLOCK = re.compile(r"(?:[-+*>#]|\d+\.) |\||```")  # so a line of a paragraph must not begin with it


def pages() -> list[Path]:
    return [path for path in files() if path.suffix == ".md" and not shown(path).startswith(LEFT_ALONE)]


def wrapped(page: str) -> str:
    return (
        "\n".join(line for kind, lines in blocks(page) for line in (_wrap(lines) if kind == "prose" else lines)) + "\n"
    )


def blocks(page: str) -> Iterator[tuple[str, list[str]]]:
    """Paragraphs and list items as `prose`, code blocks as `code`, other lines one by one as `other`."""
    lines = page.splitlines()
    while lines:
        if fence := _FENCE.match(lines[0]):
            end = next((n for n, line in enumerate(lines) if n and line.strip() == fence[1]), len(lines) - 1) + 1
            kind = "code"
        elif not lines[0].strip() or (_AS_IT_IS.match(lines[0]) and not _is_item(lines[0])):
            end, kind = 1, "other"
        else:
            end, kind = next((n for n, line in enumerate(lines) if n and _ends_prose(line)), len(lines)), "prose"
        yield kind, lines[:end]
        del lines[:end]


def _is_item(line: str) -> bool:
    found = _ITEM.match(line)
    return found is not None and found[2] is not None


def _ends_prose(line: str) -> bool:
    return not line.strip() or _is_item(line) or _FENCE.match(line) is not None or line[:1] in ("#", "|")


def _wrap(lines: list[str]) -> list[str]:
    found = _ITEM.match(lines[0])
    assert found is not None
    indent, mark = found[1], found[2] or ""
    text = " ".join(line.strip() for line in lines).removeprefix(mark.rstrip()).lstrip()
    text = _UNBROKEN.sub(lambda each: each[0].replace(" ", "\0"), text)
    text = re.sub(rf" (?={_STARTS_A_BLOCK.pattern})", "\0", text)
    width = textwrap.TextWrapper(COLUMNS, indent + mark, indent + " " * len(mark), break_long_words=False)
    width.break_on_hyphens = False
    return [line.replace("\0", " ") for line in width.wrap(text)]


if __name__ == "__main__":
    for path in [Path(each) for each in sys.argv[1:]] or pages():
        path.write_text(wrapped(path.read_text(encoding="utf-8")), encoding="utf-8")
