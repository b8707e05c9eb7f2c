"""The network as a picture: brokers, and on each link between them what it carried and what it lost.

The wider a link, the more it carried. Names and numbers are put where they cover the least of anything else.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import product
from math import dist, hypot, sqrt

from holdfast.pipeline import number_format
from holdfast.pipeline.audit.links import Direction
from holdfast.planner.graph_layout import spread

_WIDTH, _HEIGHT, _EDGE = 640, 470, 46
_RADIUS = 11
_CHARACTER, _BOLD, _LINE = 7.6, 8.5, 17  # width of a character, of one of a name, height of a line at 13.5 pixels
_LABELLED_MAX = 40  # links up to which numbers fit beside them; in larger networks they say them when pointed at
_NAMED_MAX = 100  # brokers up to which names do
_LATER = 3.0  # square pixels that a label may cover rather than take the next place
_SHARES = (0.5, 0.45, 0.55, 0.4, 0.6, 0.35, 0.65, 0.3, 0.7)  # of a link, from its middle outwards
_THIN, _THICK = 1.5, 9.0


@dataclass(frozen=True)
class _Box:
    left: float
    top: float
    right: float
    bottom: float

    def shares(self, other: "_Box") -> float:
        """The area that both cover."""
        across = min(self.right, other.right) - max(self.left, other.left)
        down = min(self.bottom, other.bottom) - max(self.top, other.top)
        return across * down if across > 0 and down > 0 else 0.0

    def crossed(self, a: tuple[float, float], b: tuple[float, float]) -> float:
        """About how much of a line lies inside."""
        steps = 24
        spots = [(a[0] + (b[0] - a[0]) * at / steps, a[1] + (b[1] - a[1]) * at / steps) for at in range(steps + 1)]
        inside = sum(self.left < x < self.right and self.top < y < self.bottom for x, y in spots)
        return inside / steps * hypot(b[0] - a[0], b[1] - a[1])

    def with_margin(self) -> "_Box":
        """Words that touch are hard to tell apart."""
        return _Box(self.left - 6, self.top - 4, self.right + 6, self.bottom + 4)

    @property
    def outside(self) -> float:
        sticking_out = -self.left, self.right - _WIDTH, -self.top, self.bottom - _HEIGHT
        return sum(max(0.0, each) for each in sticking_out)


@dataclass(frozen=True)
class _Link:
    a: str
    b: str
    directions: tuple[Direction, ...]

    @property
    def sent(self) -> int:
        return sum(each.sent for each in self.directions)

    @property
    def loss_ratio(self) -> float:
        return sum(each.lost for each in self.directions) / self.sent if self.sent else 0.0


def network_picture(directions: Sequence[Direction], seconds: float, replaced: Sequence[str] = ()) -> str:
    """`replaced` are brokers that died and have a replica in their place."""
    if not directions:
        return ""
    links = _links(directions)
    names = list(dict.fromkeys(name for each in directions for name in (each.sender, each.receiver)))
    number = {name: at for at, name in enumerate(names)}
    spots = spread(len(names), [(number[link.a], number[link.b]) for link in links])
    places = {
        name: (_EDGE + x * (_WIDTH - 2 * _EDGE), _EDGE + y * (_HEIGHT - 2 * _EDGE))
        for name, (x, y) in zip(names, spots.tolist(), strict=True)
    }
    most = max(link.sent for link in links)
    parts = [_line(link, places, most, seconds) for link in links]
    parts += [_broker(name, places[name], name in replaced) for name in names]
    parts += _labels(links, names, places, seconds, replaced)
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="Network">' + "\n".join(parts) + "</svg>"


def _links(directions: Sequence[Direction]) -> list[_Link]:
    found: dict[frozenset[str], list[Direction]] = {}
    for each in directions:
        found.setdefault(frozenset((each.sender, each.receiver)), []).append(each)
    return [_Link(each[0].sender, each[0].receiver, tuple(each)) for each in found.values()]


def _line(link: _Link, places: dict[str, tuple[float, float]], most: int, seconds: float) -> str:
    (ax, ay), (bx, by) = places[link.a], places[link.b]
    width = _THIN + (_THICK - _THIN) * sqrt(link.sent / most) if most else _THIN
    text = "; ".join(
        f"{each.sender} to {each.receiver}: {each.sent:,} messages ({each.sent / seconds:,.0f}/s), "
        f"{number_format.size(each.bytes)}, {number_format.share(each.loss_ratio)} lost"
        for each in link.directions
    )
    return (
        f'<line class="link" x1="{ax:.1f}" y1="{ay:.1f}" x2="{bx:.1f}" y2="{by:.1f}" '
        f'style="stroke-width: {width:.1f}"><title>{escape(text)}</title></line>'
    )


def _broker(name: str, place: tuple[float, float], replaced: bool) -> str:
    x, y = place
    ring = f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS + 5}"/>' if replaced else ""
    words = f"{name}: died and was replaced" if replaced else name
    dot = f'<circle class="broker" cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS}"><title>{escape(words)}</title></circle>'
    return ring + dot


# Names and numbers --------------------------------------------------------------------------------------------------


def _labels(
    links: Sequence[_Link],
    names: Sequence[str],
    places: dict[str, tuple[float, float]],
    seconds: float,
    replaced: Sequence[str],
) -> Iterable[str]:
    lines = [(places[link.a], places[link.b]) for link in links]
    occupied = [_box_at(places[name], _RADIUS + 2, _RADIUS + 2) for name in names]
    for name in names if len(names) <= _NAMED_MAX else ():
        box = _best(_beside(places[name], name), occupied, lines)
        occupied.append(box.with_margin())
        css = "name replaced" if name in replaced else "name"
        yield _text(css, box, escape(name))
    if len(links) > _LABELLED_MAX:
        return
    for link in sorted(links, key=lambda each: dist(places[each.a], places[each.b])):  # short ones have least choice
        rate, loss = f"{link.sent / seconds:,.0f}/s", f"{100 * link.loss_ratio:.1f} %"
        box = _best(_along(places[link.a], places[link.b], f"{rate}  {loss}"), occupied, lines)
        occupied.append(box.with_margin())
        yield _text("load", box, f'{rate}  <tspan class="loss">{loss}</tspan>')


def _box_at(centre: tuple[float, float], across: float, down: float) -> _Box:
    return _Box(centre[0] - across, centre[1] - down, centre[0] + across, centre[1] + down)


def _beside(place: tuple[float, float], words: str) -> list[_Box]:
    """Below, above, right and left of a broker, and at its corners."""
    half, (x, y) = _BOLD * len(words) / 2, place
    far, low = _RADIUS + 6 + half, _RADIUS + 4 + _LINE / 2
    centres = [(x, y + low), (x, y - low), (x + far, y), (x - far, y)]
    centres += [(x + side * (half + 6), y + updown * low) for side in (1, -1) for updown in (1, -1)]
    return [_box_at(centre, half, _LINE / 2) for centre in centres]


def _along(a: tuple[float, float], b: tuple[float, float], words: str) -> list[_Box]:
    """Beside a link, near its middle first, on either side of it."""
    half, length = _CHARACTER * len(words) / 2, hypot(b[0] - a[0], b[1] - a[1]) or 1.0
    across = ((b[1] - a[1]) / length, (a[0] - b[0]) / length)
    boxes = []
    for gap, share, side in product((4, 10), _SHARES, (1, -1)):
        x, y = a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share
        off = side * (abs(across[0]) * half + abs(across[1]) * _LINE / 2 + gap)
        boxes.append(_box_at((x + across[0] * off, y + across[1] * off), half, _LINE / 2))
    return boxes


def _best(boxes: Sequence[_Box], occupied: Sequence[_Box], lines: Sequence[tuple[tuple[float, float], ...]]) -> _Box:
    """The one that covers least; the first ones are nearest to what they belong to, and preferred a little."""

    def covers(at: int) -> float:
        box = boxes[at]
        over = sum(box.shares(other) for other in occupied)
        return over + 8 * sum(box.crossed(*ends) for ends in lines) + 100 * box.outside + _LATER * at

    return boxes[min(range(len(boxes)), key=covers)]


def _text(css: str, box: _Box, inner: str) -> str:
    x, y = (box.left + box.right) / 2, (box.top + box.bottom) / 2 + 4
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{inner}</text>'
