"""A picture of the network, brokers coloured by the predicted reliability of their subscribers.

The file stands alone, without script, font or address, and text follows the reader's choice of light or dark."""

from collections import defaultdict
from collections.abc import Sequence
from html import escape
from math import log10
from statistics import fmean

import numpy as np

from holdfast.planner.graph_layout import spread
from holdfast.planner.overlay import Overlay
from holdfast.planner.plan import Case, Endpoints, SubscriberPrediction
from holdfast.planner.uniformization import Floats

_WIDTH, _HEIGHT, _TOP, _EDGE = 860, 640, 74, 46
_NAMED_MAX = 60  # brokers up to which names fit
_CLASSES = (  # up to which share is missed, the colour, and what it is called
    (1e-5, "#1a7f5a", "0.99999 and more"),
    (1e-4, "#4aa36b", "0.9999"),
    (1e-3, "#8dbb5e", "0.999"),
    (1e-2, "#d5b53c", "0.99"),
    (1e-1, "#d9822b", "0.9"),
    (1.0, "#c0392b", "less"),
)
_NOBODY = "#9aa4ae"
_STYLE = """
  text { font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #57606a; }
  .title { font-size: 15px; font-weight: 600; fill: #32383f; }
  .name { font-size: 11px; text-anchor: middle; }
  .link { stroke: #8a939d; stroke-linecap: round; }
  .broker { stroke: #57606a; stroke-width: 1; }
  @media (prefers-color-scheme: dark) { text { fill: #b1bac4; } .title { fill: #e0e6ec; } .broker { stroke: #b1bac4; } }
"""


def svg(case: Case, predictions: Sequence[SubscriberPrediction], scheme: str, endpoints: Endpoints) -> str:
    overlay = case.overlay
    values: dict[str, list[float]] = defaultdict(list)
    for each in predictions:
        values[each.broker].append(each.of(scheme, endpoints))
    area = np.array([_WIDTH - 2 * _EDGE, _HEIGHT - _TOP - 2 * _EDGE])
    places = spread(len(overlay.names), [(link.a, link.b) for link in overlay.links]) * area + [_EDGE, _TOP + _EDGE / 2]
    title = f"Predicted reliability with {scheme}, end brokers {endpoints}"
    named = len(overlay.names) <= _NAMED_MAX
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
            f'height="{_HEIGHT}" role="img" aria-labelledby="title">',
            f'<title id="title">{escape(title)}</title>',
            f"<style>{_STYLE}</style>",
            f'<text class="title" x="16" y="24">{escape(title)}</text>',
            *_legend(),
            *(_link(overlay, at, places) for at in range(len(overlay.links))),
            *(_broker(overlay, at, places[at], values[overlay.names[at]], named) for at in range(len(places))),
            "</svg>\n",
        ]
    )


def _legend() -> list[str]:
    lines, x = [], 16.0
    for _, colour, words in (*_CLASSES, (0, _NOBODY, "no subscriber")):
        lines.append(f'<circle cx="{x + 6:.0f}" cy="45" r="6" fill="{colour}"/>')
        lines.append(f'<text x="{x + 17:.0f}" y="49">{words}</text>')
        x += 34 + 7.2 * len(words)
    return lines


def _colour(values: Sequence[float]) -> str:
    if not values:
        return _NOBODY
    missed = 1 - fmean(values)
    return next(colour for most, colour, _ in _CLASSES if missed <= most)


def _link(overlay: Overlay, at: int, places: Floats) -> str:
    """The less a link is up, the thinner it is."""
    link = overlay.links[at]
    (ax, ay), (bx, by) = places[link.a], places[link.b]
    down = link.component.unavailability
    width = 4.5 if down == 0 else min(4.5, max(0.8, -1.2 * log10(down)))
    text = f"{overlay.link_name(at)}: up {link.component.availability:.4f} of the time"
    return (
        f'<line class="link" x1="{ax:.1f}" y1="{ay:.1f}" x2="{bx:.1f}" y2="{by:.1f}" '
        f'stroke-width="{width:.1f}"><title>{escape(text)}</title></line>'
    )


def _broker(overlay: Overlay, at: int, place: Floats, values: Sequence[float], named: bool) -> str:
    x, y = place
    name, radius = overlay.names[at], 13 if named else 5
    text = f"{name}: up {overlay.brokers[at].availability:.4f} of the time"
    text += f"; its {len(values)} subscribers get {fmean(values):.6f} on average" if values else ""
    dot = (
        f'<circle class="broker" cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{_colour(values)}">'
        f"<title>{escape(text)}</title></circle>"
    )
    if not named:
        return dot
    label = f"{name} {fmean(values):.4f}" if values else name
    return dot + f'<text class="name" x="{x:.1f}" y="{y + 27:.1f}">{escape(label)}</text>'
