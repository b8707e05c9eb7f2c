"""The workload: from the keys of its kind to the object that draws it, and subscriptions that come from a file."""

from dataclasses import replace
from pathlib import Path

from holdfast.language.limits import FILTERS_MAX
from holdfast.model.errors import InputError
from holdfast.model.validation import did_you_mean
from holdfast.network.building.clients import Draft, add_subscription
from holdfast.network.keys.clients import SUBSCRIPTION
from holdfast.network.keys.declared import fields_of
from holdfast.network.limits import PAIRS_MAX, SUBSCRIPTIONS_MAX
from holdfast.network.problems import KeyPath, Problems
from holdfast.network.tables import Values
from holdfast.network.workload.content import Content
from holdfast.network.workload.files import Files
from holdfast.network.workload.patterns import Patterns
from holdfast.network.workload.publication import PublishingWindow
from holdfast.network.workload.rates import Rates
from holdfast.network.workload.rows import SUFFIXES, columns, rows
from holdfast.network.workload.stock import Stock
from holdfast.network.workload.traffic import Profile, Traffic, TrafficTraits
from holdfast.network.workload.workloads import Silent, Workload
from holdfast.network.workload.zipf import Zipf

_EDGE_US_MAX = 1_000_000  # left at both ends of a run for subscriptions to spread and for the last events to arrive


def window_of(values: Values, table: str, duration_us: int, problems: Problems) -> PublishingWindow:
    """From `start_s` to `stop_s`; left out, a tenth of the run at each end, at most a second."""
    edge_us = min(_EDGE_US_MAX, duration_us // 10)
    start_us, stop_us = values.get("start_us"), values.get("stop_us")
    if problems.within("duration_s"):
        return PublishingWindow(0, 0)
    if stop_us is not None and stop_us > duration_us:
        problems.add((table, "stop_s"), f"after the end of the run, which lasts {duration_us / 1_000_000:g} s")
    start_us = edge_us if start_us is None else start_us
    stop_us = max(duration_us - edge_us, start_us + 1) if stop_us is None else stop_us
    if start_us >= stop_us or start_us >= duration_us:
        wrong = "stop_s" if values.get("stop_us") is not None else "start_s"
        problems.add((table, wrong), "it would end before it begins", "start_s < stop_s <= duration_s")
    return PublishingWindow(start_us, min(stop_us, duration_us))


def build_workload(values: Values, drafts: list[Draft], folder: Path, problems: Problems) -> Workload:
    match values["kind"]:
        case "patterns":
            for name in ("per_event", "per_client"):
                if values[name] > values["patterns"]:
                    message = f"{values[name]} different ones of {values['patterns']} patterns"
                    problems.add(("workload", name), message, f"at most {values['patterns']}")
            if any(problems.within("workload", name) for name in ("per_event", "per_client", "patterns")):
                return Silent()  # so that nobody draws for ever
            return Patterns(_traffic(values), **fields_of(Patterns, values))
        case "zipf":
            return Zipf(_traffic(values), **fields_of(Zipf, values))
        case "stock":
            return Stock(_traffic(values), **fields_of(Stock, values))
        case "rates":
            return _rates(values, drafts, problems)
        case "content":
            return _content(values, drafts, problems)
        case "files":
            return _files(values, folder, problems)
    return Silent()


def _traffic(values: Values) -> Traffic:
    return Traffic(values["rate_per_s"], **fields_of(TrafficTraits, values))


def _rates(values: Values, drafts: list[Draft], problems: Problems) -> Rates:
    subscribers = sum(draft.wants for draft in drafts)
    if subscribers * sum(draft.works for draft in drafts) > PAIRS_MAX:
        problems.add(("workload",), f"more than {PAIRS_MAX:,} pairs of publisher and subscriber")
    return Rates(_profile(values), tuple(values["match"]), subscribers=subscribers, **fields_of(Rates, values))


def _content(values: Values, drafts: list[Draft], problems: Problems) -> Workload:
    publishers = tuple(draft.id for draft in drafts if draft.works)
    if values["tests"] > values["attributes"]:
        problems.add(("workload", "tests"), f"{values['tests']} of {values['attributes']} attributes")
    wanted = values["kinds"] * values["match"][1] * len(publishers)
    if wanted > FILTERS_MAX:
        message = f"a condition would have up to {wanted:,.0f} conjunctions; the limit is {FILTERS_MAX:,}"
        problems.add(("workload", "kinds"), message, "fewer kinds, or a lower match")
    if problems:
        return Silent()  # conditions are drawn next, and might take long
    return Content(_profile(values), tuple(values["match"]), publishers=publishers, **fields_of(Content, values))


def _profile(values: Values) -> Profile:
    low, high = values["rates_per_s"]
    return Profile(
        low_per_s=low,
        high_per_s=high,
        hold_us=tuple(values["hold_us"]),
        spike_ratio=values["spikes"],
        **fields_of(TrafficTraits, values),
    )


def _files(values: Values, folder: Path, problems: Problems) -> Files:
    events = _file("events", values, folder, problems)
    if values["events"] is None and values["subscriptions"] is None and not problems.within("workload"):
        problems.add(("workload",), "it names no file", 'such as events = "trades.parquet"')
    if events is None:
        return Files(_traffic(values))
    try:
        known = columns(events)
        for key in ("time", "client"):
            if values[key] is not None and values[key] not in known:
                hint = did_you_mean(values[key], known) or f"there are {', '.join(known)}"
                problems.add(("workload", key), f'{Path(events).name} has no column "{values[key]}"', hint)
    except InputError as error:
        problems.add(("workload", "events"), str(error))
    return Files(_traffic(values), events, values["time"], values["client"])


def _file(key: str, values: Values, folder: Path, problems: Problems) -> str | None:
    """The path of a file that is there and of a kind that can be read."""
    if values[key] is None:
        return None
    path = folder / values[key]
    if path.suffix not in SUFFIXES:
        problems.add(("workload", key), f'"{values[key]}" is of no known kind', f"expected {', '.join(SUFFIXES)}")
    elif not path.is_file():
        beside = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
        problems.add(("workload", key), f"there is no file {path}", did_you_mean(path.name, beside))
    else:
        return str(path)
    return None


def deal_out_subscriptions(values: Values, drafts: list[Draft], folder: Path, problems: Problems) -> None:
    """Give the subscriptions of a file to the clients that it names, or to those that subscribe, in turn."""
    path = _file("subscriptions", values, folder, problems) if values["kind"] == "files" else None
    if path is None:
        return
    place: KeyPath = ("workload", "subscriptions")
    by_name = {draft.id: draft for draft in drafts}
    waiting = [draft for draft in drafts if draft.wants]
    try:
        for number, (where, row) in enumerate(rows(path)):
            if number == SUBSCRIPTIONS_MAX:
                problems.add(place, f"more than {SUBSCRIPTIONS_MAX:,} rows")
                return
            name, of_row = row.get("client"), problems.of_row(place, where)
            if name is None and not waiting:
                of_row.add((), "there is no client that subscribes", "add [clients], or a column client")
            elif name is not None and not (isinstance(name, str) and name in by_name):
                of_row.add(("client",), f"there is no client {name!r}", did_you_mean(str(name), by_name))
            else:
                draft = waiting[number % len(waiting)] if name is None else by_name[name]
                own = {key: row[key] for key in SUBSCRIPTION.all_keys if row.get(key) is not None}
                entry = SUBSCRIPTION.values(own, (), of_row)
                add_subscription(draft.subscriptions, entry, f"s{len(draft.subscriptions) + 1}", (), of_row)
    except InputError as error:
        problems.add(place, str(error))


def check_roles(values: Values, drafts: list[Draft], problems: Problems) -> list[Draft]:
    """Who publishes and subscribes must fit the workload; without one, nobody takes part in it."""
    if problems.within("workload", "kind"):
        return drafts
    if values["kind"] == "none":
        for draft in drafts:
            for flag, given in (("publishes", draft.works), ("subscribes", draft.wants)):
                if given and draft.path[0] == "client":
                    problems.add((*draft.path, flag), "there is no workload to take part in", "give workload.kind")
        return [replace(draft, works=False, wants=False) for draft in drafts]
    publishing = values["kind"] != "files" or values["events"] is not None
    if publishing and not any(draft.works for draft in drafts) and not problems.within("client"):
        hint = "add [clients], or publishes = true to a [[client]]"
        problems.add(("workload",), "no client publishes what the workload draws", hint)
    if not publishing:
        drafts = [replace(draft, works=False) for draft in drafts]
    if not any(draft.wants or draft.subscriptions for draft in drafts) and values["kind"] != "files":
        problems.warn(("workload",), "nobody subscribes")
    return drafts
