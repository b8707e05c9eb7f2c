"""docs/benchmarks.md: each section is put there by the benchmark that it describes."""

from pathlib import Path

from bench.workloads import REPOSITORY

PAGE = REPOSITORY / "docs" / "benchmarks.md"


def put_section(name: str, text: str, page: Path = PAGE) -> None:
    """In place of the section of this name, or at the end."""
    begin, end = f"<!-- {name}: made by bench/{name}.py -->", f"<!-- {name}: end -->"
    section = f"{begin}\n\n{text.strip()}\n\n{end}"
    before = page.read_text()
    if begin in before:
        head, rest = before.split(begin, 1)
        page.write_text(head + section + rest.split(end, 1)[1])
    else:
        page.write_text(f"{before.rstrip()}\n\n{section}\n")
