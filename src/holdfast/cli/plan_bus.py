"""`holdfast plan` for a file with `[carrier]`: a bus has one path, so there are no schemes to choose from."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.network.schema import Network
    from holdfast.planner.bus import BusPrediction

_ROWS_MAX = 40  # subscribers in the table on a screen; --json has all


def advice_for(predictions: Sequence["BusPrediction"], target: float) -> tuple[str | None, str]:
    """What to choose so that every subscriber gets the target, and in words; None: nothing is enough."""
    slow = [each for each in predictions if each.end_to_end is None]
    if all(each.best_effort >= target for each in predictions):
        return "none", f"best effort is enough: every subscriber receives {target:g} of its events or more"
    if slow:
        worst = min(slow, key=lambda each: each.best_effort)
        return None, (
            f"{worst.subscriber} is sent {worst.sent_per_s:,.0f} messages a second, more than it takes: choose "
            "narrower lanes, or let it take more (takes_per_s); recovery cannot help"
        )
    least = min(predictions, key=lambda each: each.end_to_end or 0.0)
    if (least.end_to_end or 0.0) >= target:
        return "end-to-end", f'recovery = "end-to-end" is enough: every subscriber receives {target:g} or more'
    return None, f"{least.subscriber} receives {least.end_to_end:.6f} with recovery, less than {target:g}"


def bus_text(network: "Network", predictions: Sequence["BusPrediction"], words: str) -> str:
    lines = [f"{network.name}: share of events that arrive over the bus", ""]
    heads = ("owed/s", "sent/s", "best effort", "end-to-end")
    lines.append(f"  {'subscriber':<16}" + "".join(f"{each:>14}" for each in heads))
    for each in predictions[:_ROWS_MAX]:
        recovered = "too slow" if each.end_to_end is None else f"{each.end_to_end:.6f}"
        numbers = f"{each.owed_per_s:>14,.1f}{each.sent_per_s:>14,.1f}{each.best_effort:>14.6f}{recovered:>14}"
        lines.append(f"  {each.subscriber:<16}{numbers}")
    if len(predictions) > _ROWS_MAX:
        lines.append(f"  and {len(predictions) - _ROWS_MAX:,} more; --json has them all")
    return "\n".join([*lines, "", words])
