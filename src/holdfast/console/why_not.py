"""Why a subscription has not got an event: the constraint, broker, link, right, loss or latch that stopped it.

From what the run has told so far: the event and its arrivals, the subscription's life, incidents, and which brokers and
links were down. What cannot be told for sure is said as such, with the numbers that make it likely.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from holdfast.console.board import Board
from holdfast.console.network_view import link_key
from holdfast.console.recent_events import RecentEvent, SubscriptionId
from holdfast.console.stream_view import StreamView
from holdfast.language.explanation import explain
from holdfast.language.parser import parse

_DENIED = ("subscription_refused", "subscription_narrowed", "publication_refused")
_LOST = ("unrecoverable", "out_of_order", "expired", "dropped", "events_dropped")


@dataclass(frozen=True)
class Reason:
    stopped_by: str  # nothing, subscription, constraint, right, loss, lifetime, latch, broker, link, way
    words: str
    details: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {"stopped_by": self.stopped_by, "words": self.words, "details": list(self.details)}


def why_not(event: RecentEvent, key: SubscriptionId, view: StreamView, board: Board, path: Sequence[str]) -> Reason:
    """`path` are the brokers on the way of the event, as far as known."""
    client, _ = key
    subscribed = view.subscriptions[key]
    name = f"{event.source}/{event.seq}"
    arrival = event.arrivals.get(client)
    if arrival is not None and key in event.matching:
        took_ms = (arrival.time_us - event.time_us) / 1e3
        held = f", of which it was held back for {arrival.held_us / 1e3:,.1f} ms" if arrival.held_us else ""
        how = "by its original way" if arrival.via == "original" else f"recovered ({arrival.via})"
        return Reason("nothing", f"{client} got {name} after {took_ms:,.1f} ms, {how}{held}")
    if key not in event.matching:
        return _unmatched(event, subscribed.condition, subscribed.since_us, subscribed.until_us)
    told = [each for each in view.incidents if _concerns(each, event, client)]
    denied = [each for each in told if each["kind"] in _DENIED]
    if denied:
        return Reason("right", f"{denied[-1]['node']} reported {denied[-1]['kind']}", (denied[-1]["reason"],))
    lost = [each for each in told if each["kind"] in _LOST]
    if lost:
        kind = "lifetime" if lost[-1]["kind"] == "expired" else "loss"
        return Reason(kind, f"{lost[-1]['node']} reported {lost[-1]['kind']}: {lost[-1]['reason'] or name}")
    return _on_its_way(event, client, view, board, path)


def _unmatched(event: RecentEvent, condition: str, since_us: int, until_us: int | None) -> Reason:
    found = explain(parse(condition), event.attributes)
    if not found.matches:
        stops = [f"{each.constraint}: {each.why}" for each in found.obstacles]
        return Reason("constraint", f"the event does not match {condition}", tuple(stops))
    if event.time_us < since_us:
        return Reason(
            "subscription", f"it was published {(since_us - event.time_us) / 1e6:,.1f} s before the subscription"
        )
    if until_us is not None:
        return Reason("subscription", "the subscription had ended")
    return Reason("subscription", "the subscription was not active when it was published")


def _concerns(incident: Mapping[str, Any], event: RecentEvent, client: str) -> bool:
    """Whether an incident is about this event, or about the client at that time."""
    if incident["event"]:
        source, _, first = incident["event"].partition("/")
        theirs = incident["kind"] == "expired" or incident["node"] in (client, event.source)
        if source != event.source or not theirs:
            return False
        return not first or int(first) <= event.seq < int(first) + incident["count"]
    near = abs(incident["time_us"] - event.time_us) < 5_000_000
    return near and client in (incident["node"], incident["peer"])


def _on_its_way(event: RecentEvent, client: str, view: StreamView, board: Board, path: Sequence[str]) -> Reason:
    held = (board.get("total") or {}).get("held_now", 0)
    earlier = [
        each
        for each in view.events.last(len(view.events))
        if each.source == event.source and each.seq < event.seq and client not in each.arrivals
        if any(owed == client for owed, _ in each.matching)
    ]
    details = [f"way: {' → '.join(path)}"] if path else []
    for broker in path:
        found = board.get(f"broker/{broker}")
        if found is not None and found["state"] in ("down", "starting"):
            return Reason("broker", f"{broker} is {found['state']}; its neighbours keep what is for it", tuple(details))
    lossy = []
    for a, b in pairwise(path):
        link = board.get(link_key(a, b))
        if link is not None and link["state"] != "up":
            return Reason("link", f"the link {a}–{b} is {link['state']}", tuple(details))
        if link is not None and link["lost"]:
            lossy.append(f"{a}–{b} loses {link['lost']:,.1f} messages a second, {100 * link['loss']:.1f} %")
    if earlier and held:
        first = f"{earlier[-1].source}/{earlier[-1].seq}"
        return Reason("latch", f"it waits at {client} for {first}, which has not come", (*details, *lossy))
    if lossy:
        words = "it was lost on a link of its way, or is on its way again; these lose messages now"
        return Reason("link", words, (*details, *lossy))
    return Reason(
        "way", "it is on its way: no broker or link on it is down, and nobody has given it up", tuple(details)
    )
