"""Clients: those that come in numbers, those that the file names, and what each subscribes to and publishes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random

from holdfast.network.building.graph import known_broker
from holdfast.network.keys.declared import fields_of
from holdfast.network.keys.root import ROOT
from holdfast.network.limits import CLIENTS_MAX, PUBLISHERS_MAX, SUBSCRIPTIONS_MAX
from holdfast.network.problems import KeyPath, Problems
from holdfast.network.schema import ClientSpec, SubscriptionSpec
from holdfast.network.settings import BUS
from holdfast.network.tables import Repeated, Values
from holdfast.network.workload.listed import Scheduled
from holdfast.network.workload.publication import EventTraits
from holdfast.network.workload.workloads import Workload


@dataclass
class Draft:
    """A client before the workload has given it its part."""

    id: str
    broker: str
    path: KeyPath
    subscriptions: dict[str, SubscriptionSpec] = field(default_factory=dict)
    advertisements: list[str] | None = None
    schedule: tuple[Scheduled, ...] = ()
    works: bool = False
    wants: bool = False


def draft_clients(values: Values, brokers: list[str] | None, seed: int, problems: Problems) -> list[Draft]:
    """`brokers` is None when it is not known which there are."""
    shape = ROOT.all_keys["client"].shape
    assert isinstance(shape, Repeated)
    entries = list(shape.entries(values["client"], ("client",), problems))
    total = _generated_count(values["clients"], len(brokers or ())) + sum(each["count"] for each in entries)
    if total > CLIENTS_MAX:
        where = "clients" if values["clients"] else "client"
        problems.add((where,), f"{total:,} clients; the limit is {CLIENTS_MAX:,}")
        return []
    known = dict.fromkeys(brokers or ())
    drafts = list(_generated(values["clients"], brokers, seed, problems)) if values["clients"] and brokers else []
    for number, entry in enumerate(entries):
        path: KeyPath = ("client", number)
        if entry["broker"] is None and values["carrier"] is not None:
            entry["broker"] = BUS
        if entry["broker"] is None and not problems.within(*path, "broker"):
            problems.add(path, '"broker" is missing, expected a name')
        elif brokers is not None and entry["broker"] is not None:
            known_broker(entry["broker"], known, (*path, "broker"), problems)
        if entry["id"] is not None:
            drafts += _listed(entry, path, problems)
    _check_names(drafts, known, problems)
    return drafts


def _generated_count(settings: Values | None, brokers: int) -> int:
    if settings is None:
        return 0
    if settings["count"] is not None:
        return int(settings["count"])
    return brokers * (1 if settings["per_broker"] is None else int(settings["per_broker"]))


def _generated(settings: Values, brokers: list[str], seed: int, problems: Problems) -> Iterator[Draft]:
    in_all, each = settings["count"], settings["per_broker"]
    if in_all is not None and each is not None:
        problems.add(("clients", "count"), "found both count and per_broker", "give one of them")
    total = _generated_count(settings, len(brokers))
    publishers = total if settings["publishers"] == "all" else settings["publishers"]
    if publishers > total:
        problems.add(("clients", "publishers"), f"{publishers} of {total} clients cannot publish")
        publishers = total
    publish = frozenset(Random(f"{seed}/publishers").sample(range(total), publishers))
    for number in range(total):
        broker = brokers[number % len(brokers) if in_all is not None else number // (each or 1)]
        wants = settings["subscribers"] == "all" or (settings["subscribers"] == "others" and number not in publish)
        name = f"{settings['prefix']}{number + 1}"
        yield Draft(name, broker, ("clients", "prefix"), works=number in publish, wants=wants)


def _listed(entry: Values, path: KeyPath, problems: Problems) -> Iterator[Draft]:
    subscriptions = _subscriptions(entry["subscriptions"] or (), (*path, "subscriptions"), problems)
    schedule = tuple(_scheduled(entry["publish"] or (), (*path, "publish"), problems))
    for number in range(1, entry["count"] + 1):
        yield Draft(
            entry["id"] if entry["count"] == 1 else f"{entry['id']}-{number}",
            entry["broker"] or "",
            path,
            dict(subscriptions),
            entry["advertisements"],
            schedule,
            entry["publishes"],
            entry["subscribes"],
        )


def _subscriptions(
    found: Iterable[str | Values | None], path: KeyPath, problems: Problems
) -> dict[str, SubscriptionSpec]:
    specs: dict[str, SubscriptionSpec] = {}
    for number, each in enumerate(found):
        if each is not None:  # otherwise it is not accepted, and that has been told
            entry = {"condition": each} if isinstance(each, str) else each
            add_subscription(specs, entry, f"s{number + 1}", (*path, number), problems)
    return specs


def add_subscription(
    specs: dict[str, SubscriptionSpec], entry: Values, name: str, path: KeyPath, problems: Problems
) -> None:
    """Add what an entry says to a client's subscriptions; `name` is for one that has none."""
    name = entry.get("id") or name
    if name in specs:
        problems.add(path, f'there are two subscriptions called "{name}"')
    from_us, until_us = entry.get("from_us") or 0, entry.get("until_us")
    if until_us is not None and until_us <= from_us:
        problems.add((*path, "until_s"), "the subscription ends before it begins")
    if entry["condition"] is not None:
        specs[name] = SubscriptionSpec(name, entry["condition"], from_us, until_us, entry.get("group") or "")


def _scheduled(found: Iterable[Values], path: KeyPath, problems: Problems) -> Iterator[Scheduled]:
    for number, entry in enumerate(found):
        until_us = entry["until_us"]
        if until_us is not None and until_us <= entry["at_us"]:
            problems.add((*path, number, "until_s"), "the publications end before they begin")
        yield Scheduled(
            at_us=entry["at_us"],
            attributes=entry["attributes"] or {},
            every_us=entry["every_us"],
            until_us=until_us,
            **fields_of(EventTraits, entry),
        )


def _check_names(drafts: Iterable[Draft], brokers: Iterable[str], problems: Problems) -> None:
    """Brokers and clients are told apart by name in traces, and their dice are named after them."""
    seen: set[str] = set(brokers)
    brokers = frozenset(seen)
    for draft in drafts:
        path = (*draft.path, "id") if draft.path[0] == "client" else draft.path
        if draft.id in brokers:
            problems.add(path, f'there is a broker called "{draft.id}" already')
        elif draft.id in seen:
            problems.add(path, f'there are two clients called "{draft.id}"')
        seen.add(draft.id)


def finish_clients(drafts: list[Draft], workload: Workload, seed: int, problems: Problems) -> tuple[ClientSpec, ...]:
    """Give each client its part of the workload."""
    _check_numbers(drafts, workload, problems)
    if problems:
        return ()  # what follows may take a while and finds no further problem but one
    specs = []
    interested = count()
    for draft in drafts:
        subscriptions = list(draft.subscriptions.values())
        if draft.wants:
            conditions = workload.conditions(next(interested), Random(f"{seed}/{draft.id}/subscriptions"))
            free = (name for number in count(1) if (name := f"s{number}") not in draft.subscriptions)
            subscriptions += [SubscriptionSpec(next(free), condition) for condition in conditions]
        specs.append(_finished(draft, subscriptions, workload))
    return tuple(specs)


def _check_numbers(drafts: list[Draft], workload: Workload, problems: Problems) -> None:
    publishers = sum(draft.works or bool(draft.schedule) for draft in drafts)
    if publishers > PUBLISHERS_MAX:
        problems.add(("clients",), f"{publishers:,} publishers; the limit is {PUBLISHERS_MAX:,}")
    subscriptions = sum(len(draft.subscriptions) + draft.wants * workload.per_client for draft in drafts)
    if subscriptions > SUBSCRIPTIONS_MAX:
        problems.add(("clients",), f"{subscriptions:,} subscriptions; the limit is {SUBSCRIPTIONS_MAX:,}")


def check_advertisements(drafts: list[Draft], routing: str, problems: Problems) -> None:
    for draft in drafts:
        if routing == "advertisements" and (draft.works or draft.schedule) and draft.advertisements == []:
            hint = "what a client does not advertise is not routed; leave the list out to advertise everything"
            problems.add((*draft.path, "advertisements"), f'"{draft.id}" publishes and advertises nothing', hint)


def check_groups(drafts: list[Draft], values: Values, problems: Problems) -> None:
    """That groups get what a group can have."""
    reliability = values["reliability"]
    careful = reliability["recovery"] != "none" or reliability["order"] != "none"
    for draft in drafts:
        if not any(each.group for each in draft.subscriptions.values()):
            continue
        if values["carrier"] is not None:
            problems.add((*draft.path, "subscriptions"), "a group needs brokers, and a bus has none", "leave it out")
        elif careful:
            hint = 'leave recovery and order out, or use hops = "retransmission", which loses nothing'
            problems.add((*draft.path, "subscriptions"), "a group has neither recovery nor order", hint)
        return


def _finished(draft: Draft, subscriptions: list[SubscriptionSpec], workload: Workload) -> ClientSpec:
    advertised = draft.advertisements
    if advertised is None:
        # What is spelled out may be anything, and saying so is simpler than working out what it has in common.
        advertised = ["TRUE"] if draft.schedule else [workload.advertisement()] if draft.works else []
    return ClientSpec(
        id=draft.id,
        broker=draft.broker,
        subscriptions=tuple(subscriptions),
        advertisements=tuple(advertised),
        publishes=draft.works or bool(draft.schedule),
        schedule=draft.schedule,
        works=draft.works,
    )
