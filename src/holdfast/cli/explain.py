"""`holdfast explain`: read a condition back, or say why an event does or does not match it."""

import json
from typing import Annotated

import typer

from holdfast.cli.json_events import read_event
from holdfast.language.explanation import Explanation
from holdfast.language.parser import parse
from holdfast.language.subscription import Subscription, filter_text


def run(
    condition: Annotated[str, typer.Argument(help="A SQL condition.")],
    event: Annotated[str | None, typer.Argument(help="An event as a JSON object.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    carrier: Annotated[
        str | None, typer.Option(help="Show which lanes of such a bus the condition becomes: nats, mqtt, ...")
    ] = None,
    lanes: Annotated[str, typer.Option(help="The template of its lanes.")] = "",
) -> None:
    """Explain why an event matches a condition, or why not. Without an event, show how the condition was read.

    Exit code 0: it matches. 1: it does not. 2: the condition or the event is invalid.

    \b
    Examples:
      holdfast explain "price < 120 AND symbol = 'IBM'" '{"symbol": "IBM", "price": 130}'
      holdfast explain --carrier nats --lanes "plant.{site}.{kind}" "site = 'north' AND temp > 3"
    """
    subscription = parse(condition)
    if carrier is not None:
        shown = _lanes(subscription, carrier, lanes)
        print(json.dumps(shown) if as_json else _lanes_text(shown))
        return
    if event is None:
        print(json.dumps(_read_back(subscription)) if as_json else _read_back_text(subscription))
        return
    explanation = subscription.explain(read_event(event))
    if as_json:
        print(json.dumps(_explained(explanation)))
    else:
        for warning in subscription.warnings:
            print(f"warning: {warning}")
        print(explanation)
    if not explanation.matches:
        raise typer.Exit(1)


def _lanes(subscription: Subscription, carrier: str, template: str) -> dict[str, list[str]]:
    from holdfast.carriers.addresses import features_of
    from holdfast.carriers.selectors import selector_of
    from holdfast.language.lanes import Template, pattern_text

    bus = features_of(carrier)
    covering = Template(template, "holdfast").covering(subscription, bus.prefixes)
    shown = {"lanes": [pattern_text(each) for each in covering.patterns], "why": list(covering.reasons)}
    if bus.selects:
        shown["selector"] = [selector_of([subscription])]
    return shown


def _lanes_text(shown: dict[str, list[str]]) -> str:
    lines = [f"lane  {each}" for each in shown["lanes"]] or ["no lane: the condition never holds"]
    lines += [f"why   {each}" for each in shown["why"]]
    for selector in shown.get("selector", ()):
        said = selector or "everything, because no test of it can be said as a selector"
        lines.append(f"with --body json the server passes  {said}")
    return "\n".join(lines)


def _read_back(subscription: Subscription) -> dict[str, object]:
    return {
        "condition": str(subscription),
        "filters": [filter_text(each) for each in subscription.filters],
        "attributes": subscription.attributes,
        "warnings": subscription.warnings,
    }


def _read_back_text(subscription: Subscription) -> str:
    lines = [f"condition   {subscription}", f"attributes  {', '.join(subscription.attributes) or 'none'}"]
    lines += [f"filter {n:<4} {filter_text(each)}" for n, each in enumerate(subscription.filters, 1)]
    return "\n".join(lines + [f"warning     {each}" for each in subscription.warnings])


def _explained(explanation: Explanation) -> dict[str, object]:
    return {
        "matches": explanation.matches,
        "filter": None if explanation.filter is None else filter_text(explanation.filter),
        "obstacles": [{"constraint": str(each.constraint), "why": each.why} for each in explanation.obstacles],
    }
