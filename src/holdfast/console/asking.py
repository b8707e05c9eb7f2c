"""Questions about conditions: what of the last events would match, who covers it, what it costs, where it would go.

Where it would go is worked out for a tree of brokers, by the rules of `protocol/tree`: a condition stops where one that
covers it has passed before, and, with routing by advertisements, where nobody publishes what it may match.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

from holdfast.console.recent_events import RecentEvents, SubscriptionId, as_json
from holdfast.console.stream_view import StreamView
from holdfast.language.covering import covers, overlaps
from holdfast.language.explanation import explain
from holdfast.language.parser import parse
from holdfast.language.subscription import Subscription
from holdfast.model.errors import InputError

_SHOWN_MAX = 20  # events, and names of subscriptions, in an answer
_COVERING_MAX = 500  # subscriptions that a new one is compared with: a few milliseconds


@dataclass(frozen=True)
class RoutingGraph:
    """What routing depends on."""

    neighbours: Mapping[str, Iterable[str]]
    routing: str
    advertised: Mapping[str, tuple[Subscription, ...]]  # by broker; empty where nobody advertises


def text_of(given: Mapping[str, Any], key: str) -> str:
    found = given.get(key)
    if not isinstance(found, str) or not found.strip():
        raise InputError(f"{key} is missing")
    return found


def explained(given: Mapping[str, Any]) -> dict[str, Any]:
    """Why an event matches a condition, or not."""
    condition, event = parse(text_of(given, "condition")), given.get("event")
    if not isinstance(event, dict):
        raise InputError('expected an event as a JSON object, such as {"price": 99.5}')
    found = explain(condition, event)
    return {"condition": str(condition), "matches": found.matches, "words": str(found)}


def about_condition(given: Mapping[str, Any], view: StreamView, topology: RoutingGraph | None) -> dict[str, Any]:
    condition = parse(text_of(given, "condition"))
    matched, cost_ns = _matched(condition, view.events)
    live = {key: each.condition for key, each in view.subscriptions.items() if each.until_us is None}
    compared = {key: parse(text) for key, text in list(live.items())[:_COVERING_MAX]}
    covering = [key for key, each in compared.items() if covers(each, condition)]
    covered = [key for key, each in compared.items() if covers(condition, each) and key not in covering]
    broker = given.get("broker")
    homes = {key: view.homes.get(key[0], "") for key in covering}
    way = None
    if topology is not None and isinstance(broker, str) and broker in topology.neighbours:
        way = goes_to(condition, broker, homes, topology)
    asked = len(view.events)
    return {
        "condition": str(condition),
        "filters": len(condition.filters),
        "events": asked,
        "matches": len(matched),
        "latest": as_json(matched[:_SHOWN_MAX]),
        "covering": [_name(each, live) for each in covering[:_SHOWN_MAX]],
        "covering_count": len(covering),
        "covered": [_name(each, live) for each in covered[:_SHOWN_MAX]],
        "covered_count": len(covered),
        "compared": len(compared),
        "cost_us": round(cost_ns / asked / 1e3, 2) if asked else None,
        "brokers": way,
    }


def _matched(condition: Subscription, events: RecentEvents) -> tuple[list[Any], int]:
    """Those that match, the latest first, and what asking has cost."""
    recent = events.last(len(events))
    began_ns = perf_counter_ns()
    found = [each for each in recent if condition.matches(each.attributes)]
    return found, perf_counter_ns() - began_ns


def _name(key: SubscriptionId, conditions: Mapping[SubscriptionId, str]) -> dict[str, str]:
    return {"client": key[0], "id": key[1], "condition": conditions[key]}


def goes_to(
    condition: Subscription, broker: str, covering: Mapping[SubscriptionId, str], topology: RoutingGraph
) -> list[dict[str, str]]:
    """Each broker with whether the condition reaches it, and otherwise why not."""
    if topology.routing == "destinations":
        return [
            {"broker": each, "state": "goes", "why": "link states reach every broker"} for each in topology.neighbours
        ]
    homes = {home for home in covering.values() if home}
    found = {broker: {"broker": broker, "state": "goes", "why": "here it is subscribed"}}
    waiting = [(broker, "")]
    while waiting:
        at, stopped = waiting.pop()
        for near in topology.neighbours[at]:
            if near in found:
                continue
            why = stopped or _stopped(condition, at, near, homes, topology)
            state = "stops" if why else "goes"
            found[near] = {"broker": near, "state": state, "why": why or f"from {at}"}
            waiting.append((near, why))
    return [found[each] for each in topology.neighbours if each in found]


def _stopped(condition: Subscription, at: str, near: str, homes: set[str], topology: RoutingGraph) -> str:
    """Why the condition does not pass from one broker to the next; empty when it does."""
    this_side = _side(at, near, topology)
    known = sorted(home for home in homes if home in this_side)
    if known:
        return f"a condition that covers it has gone from {at} to {near} already, from {known[0]}"
    if topology.routing == "advertisements":
        beyond = _side(near, at, topology)
        published = [each for home in beyond for each in topology.advertised.get(home, ())]
        if not any(overlaps(each, condition) for each in published):
            return f"nobody behind {near} publishes what it may match"
    return ""


def _side(start: str, without: str, topology: RoutingGraph) -> set[str]:
    """The brokers that are reached from one without passing a neighbour of it."""
    found, waiting = {start}, [start]
    while waiting:
        for each in topology.neighbours[waiting.pop()]:
            if each not in found and each != without:
                found.add(each)
                waiting.append(each)
    return found
