"""Pieces of the audit's report: cards, tiles, tables with bars, and the promises. Plain HTML, everything escaped."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from holdfast import __version__
from holdfast.books.verdict import Verdict
from holdfast.pipeline import number_format
from holdfast.pipeline.report.style import STYLE

PROMISES = {
    "P1": "Only what matches is delivered",
    "P2": "At most once",
    "P3": "In the order of each source",
    "P4": "What is owed is delivered",
    "P5": "What was acknowledged survives a crash",
    "P6": "Replication is complete and ordered",
    "P7": "Everything stays within its limit",
    "P8": "Same file and seed, same trace",
}
_NARROW_COLUMNS_MAX = 3  # that fit side by side on a telephone
_RULES = "default-src 'none'; style-src 'unsafe-inline'"  # the browser itself sees to it that nothing is fetched


def page(title: str, about: str, *parts: str) -> str:
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_RULES}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}: audit</title><style>{STYLE}</style></head>",
            f'<body><main><h1>{escape(title)}</h1><p class="about">{about}</p>',
            *parts,
            "<footer>Quantiles are exact: the smallest measured delay that at least that share of the deliveries does "
            "not exceed. A group's ordering degree is the mean over its events, each placed among the events of its "
            f"own source and subscriber. Holdfast {escape(__version__)}.</footer>",
            "</main></body></html>",
            "",
        ]
    )


def columns(*each: Sequence[str]) -> str:
    """Cards in two columns on a wide screen; on a narrow one below each other, from both columns in turn."""
    made = [
        f'<div class="column">{"".join(_placed(part, 2 * at + number) for at, part in enumerate(parts))}</div>'
        for number, parts in enumerate(each)
    ]
    return f'<div class="columns">{"".join(made)}</div>'


def _placed(part: str, place: int) -> str:
    return part.replace("<section ", f'<section style="--place: {place}" ', 1)


def card(title: str, summary: str, body: str, wide: bool = False) -> str:
    css = "card wide" if wide else "card"
    paragraph = f'<p class="says">{escape(summary)}</p>' if summary else ""
    return f'<section class="{css}"><h2>{escape(title)}</h2>{paragraph}{body}</section>'


def chips(verdicts: Mapping[str, Verdict]) -> str:
    """The promises at a glance."""
    made = (
        f'<span class="chip {state_of(verdict)[1]}" title="{escape(PROMISES[name])}"><b>{name}</b> '
        f"{escape(PROMISES[name].lower())}: {state_of(verdict)[0]}</span>"
        for name, verdict in verdicts.items()
    )
    return f'<div class="chips">{"".join(made)}</div>'


def tiles(each: Iterable[tuple[str, str, bool]]) -> str:
    """Number, what it is, and whether it is bad news."""
    made = (
        f'<div class="tile{" bad" if bad else ""}"><b>{escape(number)}</b><span>{escape(what)}</span></div>'
        for number, what, bad in each
    )
    return f'<div class="tiles">{"".join(made)}</div>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Cells are HTML. The first `left` columns are text, the others numbers.

    On a narrow screen the rows of a wide table stand one below the other, each number with the head of its column.
    """

    def cell(tag: str, at: int, text: str) -> str:
        css = "bar" if text.startswith("<i") else "name" if at < left else "number"
        label = f' data-label="{escape(head[at].strip())}"' if tag == "td" and at else ""
        return f'<{tag} class="{css}"{label}>{text}</{tag}>'

    stacks = ' class="stacks"' if len(head) > _NARROW_COLUMNS_MAX else ""
    top = "".join(cell("th", at, escape(text)) for at, text in enumerate(head))
    body = "".join(f"<tr>{''.join(cell('td', at, text) for at, text in enumerate(row))}</tr>" for row in rows)
    return f'<div class="scroll"><table{stacks}><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def bar(css: str, part: float, total: float, title: str = "") -> str:
    width = 100 * part / total if total else 0.0
    hidden = "; visibility: hidden" if not part else ""
    return f'<i class="{css}" title="{escape(title)}" style="width: {width:.2f}%{hidden}"></i>'


def parts_bar(good: float, total: float, title: str = "") -> str:
    """All of it, the good part in its own colour."""
    edge = f"{100 * good / total if total else 100:.2f}%"
    paint = f"linear-gradient(90deg, var(--delivered) {edge}, var(--lost) {edge})"
    return f'<i class="parts" title="{escape(title)}" style="background: {paint}"></i>'


def promises(verdicts: Mapping[str, Verdict]) -> str:
    rows = (
        f'<tr><td class="name"><b>{name}</b></td><td>{PROMISES[name]}</td><td>{_state(verdict)}</td>'
        f'<td class="number">{number_format.count(verdict.checked)}</td>'
        f'<td class="number">{number_format.count(verdict.broken)}</td>'
        f'<td class="note">{escape(verdict.note)}{_examples(verdict)}</td></tr>'
        for name, verdict in verdicts.items()
    )
    head = (
        "<tr><th></th><th>promise</th><th></th>"
        '<th class="number">checked</th><th class="number">found against it</th><th></th></tr>'
    )
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'


def state_of(verdict: Verdict) -> tuple[str, str]:
    """In a word, and its style."""
    if not verdict.holds:
        return "broken", "broken"
    if not verdict.checked:
        return "not checked", "open"
    return ("measured", "open") if verdict.broken else ("holds", "holds")


def _state(verdict: Verdict) -> str:
    word, css = state_of(verdict)
    return f'<span class="state {css}">{word}</span>'


def _examples(verdict: Verdict) -> str:
    if not verdict.examples:
        return ""
    items = "".join(f"<li><code>{escape(example_text(each))}</code></li>" for each in verdict.examples)
    shown = "open" if not verdict.holds else ""
    return f'<details {shown}><summary>such as</summary><ul class="examples">{items}</ul></details>'


def example_text(example: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in example.items())
