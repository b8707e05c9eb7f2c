"""The live view: the network as a tree with load and loss on its links, counts, and what has happened.

On a terminal it is drawn anew every second, in 24 lines of 80 characters; without one it is a plain line every few
seconds and one for each thing that happens.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.constrain import Constrain
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from holdfast.books.outcome import Outcome
from holdfast.demo.watch import RunWatch, rooted

_LINE_EVERY_S = 5  # between plain lines: a minute of them fits one screen
_SHOWN = 4  # of what has happened, the latest
_BARS = "▁▂▃▄▅▆▇█"
_BARS_SHOWN = 28
_NAME_WIDTH = 22
_WIDTH_MAX = 100  # wider, and numbers are too far from their names


@dataclass(frozen=True)
class NetworkOutline:
    """What of the network does not change."""

    title: str
    neighbours: Mapping[str, Sequence[str]]
    root: str
    duration_s: float


class RunScreen:
    """Shows a run while it lasts, on a terminal or line by line."""

    def __init__(self, shape: NetworkOutline, watch: RunWatch, console: Console) -> None:
        self._shape = shape
        self._watch = watch
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        self._printed = 0  # happenings, as plain lines
        self._line_s = 0.0

    def __enter__(self) -> "RunScreen":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show_step(self, words: str) -> None:
        """Something that takes its time begins."""
        if self._live is not None:
            self._live.update(Text(words, style="dim"), refresh=True)
        else:
            self._print(words)

    def show(self, outcome: Outcome, now_s: float) -> None:
        if self._live is not None:
            self._live.update(picture(self._shape, self._watch, outcome, now_s), refresh=True)
            return
        for each in list(self._watch.happenings)[self._printed :]:
            self._print(f"{each.at_s:5.1f} s  {each.words}")
        self._printed = len(self._watch.happenings)
        if now_s - self._line_s >= _LINE_EVERY_S - 0.5:
            self._line_s = now_s
            self._print(line(self._watch, outcome, now_s))

    def _print(self, words: str) -> None:
        print(words, file=self._console.file, flush=True)


def view_on_stderr(shape: NetworkOutline, watch: RunWatch) -> RunScreen:
    return RunScreen(shape, watch, Console(file=sys.stderr))


def line(watch: RunWatch, outcome: Outcome, now_s: float) -> str:
    published, delivered, _ = watch.per_s[-1] if watch.per_s else (0, 0, 0)
    return (
        f"{now_s:5.1f} s  published {outcome.published:,} ({published}/s)  delivered {outcome.delivered:,} "
        f"({delivered}/s) of {outcome.owed:,}  lost on links {watch.lost:,}  "
        f"recovered {sum(outcome.recovered.values()):,}  held back {watch.held:,}"
    )


# On a terminal -----------------------------------------------------------------------------------------------------


def picture(shape: NetworkOutline, watch: RunWatch, outcome: Outcome, now_s: float) -> RenderableType:
    head = Table.grid(expand=True)
    head.add_column()
    head.add_column(justify="right")
    phase = f"{now_s:.0f} of {shape.duration_s:.0f} s" if now_s <= shape.duration_s else "waiting for the last ones"
    head.add_row(Text(shape.title, style="bold"), Text(phase, style="dim"))
    middle = Table.grid(expand=True, padding=(0, 1))
    middle.add_column(ratio=1)
    middle.add_column(width=34)
    network = Panel(_tree(shape, watch), title="network", title_align="left", border_style="dim")
    middle.add_row(network, Panel(_counts(watch, outcome), title="so far", title_align="left", border_style="dim"))
    lines = [f"{each.at_s:5.1f} s  {each.words}" for each in list(watch.happenings)[-_SHOWN:]]
    happened = Text("\n".join([*lines, *[""] * (_SHOWN - len(lines))]), no_wrap=True, overflow="ellipsis")
    below = Panel(happened, title="what happened", title_align="left", border_style="dim")
    return Constrain(Group(head, middle, below), _WIDTH_MAX)


def _tree(shape: NetworkOutline, watch: RunWatch) -> RenderableType:
    rows = rooted(shape.neighbours, shape.root)
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(no_wrap=True, width=_NAME_WIDTH)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_row("", Text("messages", style="dim"), Text("lost", style="dim"))
    for at, (_, name, above) in enumerate(rows):
        label = Text.assemble((_guides(rows, at), "dim"), _broker(watch, name))
        counts = watch.links.get(frozenset((name, above or name)))
        if counts is None:
            table.add_row(label, "", "")
        else:
            table.add_row(label, f"{counts.rate_per_s:,.0f}/s", f"{100 * counts.loss_ratio:.1f} %")
    return table


def _guides(rows: Sequence[tuple[int, str, str | None]], at: int) -> str:
    """The lines of the tree before a name: whether more hangs from each broker above it."""
    depth = rows[at][0]
    if depth == 0:
        return ""
    drawn = ["├─ " if _more_below(rows, at, depth) else "└─ "]
    for level in range(depth - 1, 0, -1):
        drawn.append("│  " if _more_below(rows, at, level) else "   ")
    return "".join(reversed(drawn))


def _more_below(rows: Sequence[tuple[int, str, str | None]], at: int, level: int) -> bool:
    for depth, _, _ in rows[at + 1 :]:
        if depth < level:
            return False
        if depth == level:
            return True
    return False


def _broker(watch: RunWatch, name: str) -> Text:
    if name not in watch.down:
        return Text(name)
    replica = watch.replica_of.get(name)
    if replica is None:
        return Text(f"{name} killed", style="bold red")
    return Text(replica, style="bold green" if replica in watch.ready else "bold yellow")


def _counts(watch: RunWatch, outcome: Outcome) -> RenderableType:
    table = Table.grid(expand=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True, width=7)
    for name, number, rate, style in _numbers(watch, outcome):
        per_s = "" if rate is None else f"{rate:,}/s"
        table.add_row(Text(name, style="dim"), Text(f"{number:,}", style=style), Text(per_s, style=style))
    return Group(table, Text(), Text("delivered a second", style="dim"), Text(_bars(watch), style="cyan"))


def _numbers(watch: RunWatch, outcome: Outcome) -> Iterator[tuple[str, int, int | None, str]]:
    """What, how many, how many in the last second, and how it looks."""
    published, delivered, recovered = watch.per_s[-1] if watch.per_s else (0, 0, 0)
    yield "published", outcome.published, published, ""
    yield "owed", outcome.owed, None, ""
    yield "delivered", outcome.delivered, delivered, "bold"
    yield "  recovered", sum(outcome.recovered.values()), recovered, "green"
    yield "not there yet", outcome.owed - outcome.delivered, None, ""
    yield "held back now", watch.held, None, ""
    yield "held back in all", outcome.held, None, ""
    yield "lost on links", watch.lost, None, "yellow"
    if watch.overload:
        yield "dropped: overload", watch.overload, None, "bold red"


def _bars(watch: RunWatch) -> str:
    """Deliveries of the last seconds, as small bars."""
    recent = [delivered for _, delivered, _ in watch.per_s][-_BARS_SHOWN:]
    most = max(recent, default=0)
    return "".join(_BARS[min(7, 8 * each // (most + 1))] for each in recent)
