"""What if a broker or a link were gone, or better: changes in words, applied to a case.

`remove b3` or `remove b1-b2`, `b3=0.999` for an availability with failures as often as before, `b3.mttr_s=60` for a
mean time down, `b3.mtbf_s=…` for a mean time up. Several changes joined by commas are one case."""

from dataclasses import dataclass

from holdfast.model.errors import InputError
from holdfast.model.validation import did_you_mean
from holdfast.planner.components import Component
from holdfast.planner.overlay import Overlay
from holdfast.planner.plan import Case

_PROPERTIES = ("availability", "mttr_s", "mtbf_s")
_NAMED_MAX = 8  # brokers in a message: what fits in two lines


@dataclass(frozen=True)
class _Target:
    broker: int | None = None
    link: int | None = None


def changed(case: Case, words: str) -> Case:
    """The case with all changes made; what cannot be understood is told at once."""
    problems = []
    overlay, gone = case.overlay, set[str]()
    changed_of: dict[str, set[str]] = {}  # what has been changed about what
    for change in words.split(","):
        try:
            before, (overlay, removed) = overlay, _apply(overlay, change.strip())
            _check_new(before, change.strip(), changed_of)
            gone |= removed
        except InputError as error:
            problems.append(str(error))
    if problems:
        raise InputError(f"--what-if {words!r}: {'; '.join(problems)}")
    demand = case.demand.without_brokers(frozenset(gone)) if gone else case.demand
    if not demand.subscribers or not demand.origins:
        raise InputError(f"--what-if {words!r}: no subscriber or no publisher is left")
    return Case(overlay, demand)


def _check_new(overlay: Overlay, change: str, changed_of: dict[str, set[str]]) -> None:
    """Changes of one case must not contradict each other: the order in which they are given means nothing."""
    if change.startswith("remove "):
        name, what = change.removeprefix("remove ").strip(), "availability"
    else:
        name, what = _property(change.partition("=")[0].strip())
    link = _find(overlay, name).link
    before = changed_of.setdefault(name if link is None else overlay.link_name(link), set())
    if what in before or "availability" in before or (before and what == "availability"):
        raise InputError(f"{name} is changed or removed before in the same case; give --what-if for each by itself")
    before.add(what)


def _apply(overlay: Overlay, change: str) -> tuple[Overlay, set[str]]:
    if change.startswith("remove "):
        place = _find(overlay, change.removeprefix("remove ").strip())
        if place.broker is not None:
            return overlay.without_broker(place.broker), {overlay.names[place.broker]}
        assert place.link is not None
        return overlay.without_links([place.link]), set()
    name, equals, text = change.partition("=")
    if not equals:
        raise InputError(f"{change!r}: expected remove NAME, NAME=AVAILABILITY, NAME.mttr_s=S or NAME.mtbf_s=S")
    name, what = _property(name.strip())
    place = _find(overlay, name)
    component = overlay.brokers[place.broker] if place.broker is not None else overlay.links[place.link or 0].component
    better = _with(component, what, _number(text, what))
    if place.broker is not None:
        return overlay.with_broker(place.broker, better), set()
    return overlay.with_link(place.link or 0, better), set()


def _property(name: str) -> tuple[str, str]:
    for what in _PROPERTIES:
        if name.endswith(f".{what}"):
            return name.removesuffix(f".{what}"), what
    return name, "availability"


def _number(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{text.strip()!r} is not a number") from None
    if not 0 < value <= (1 if what == "availability" else 1e9):
        most = "1" if what == "availability" else "1,000,000,000"
        raise InputError(f"{what} = {value:g}: expected a number above 0, up to {most}")
    return value


def _with(component: Component, what: str, value: float) -> Component:
    if what == "availability":
        return component.with_availability(value)
    if not component.fails:
        raise InputError(f"{what}: it never fails in the file; give its availability instead")
    return Component(component.up_s, value) if what == "mttr_s" else Component(value, component.down_s)


def _find(overlay: Overlay, name: str) -> _Target:
    if name in overlay.number:
        return _Target(broker=overlay.number[name])
    for at, letter in enumerate(name):  # names may have hyphens themselves
        a, b = overlay.number.get(name[:at]), overlay.number.get(name[at + 1 :])
        if letter == "-" and a is not None and b is not None:
            link = overlay.link_between(a, b)
            if link is None:
                raise InputError(f"there is no link between {name[:at]} and {name[at + 1 :]}")
            return _Target(link=link)
    known = [*overlay.names, *(overlay.link_name(at) for at in range(len(overlay.links)))]
    named = ", ".join(overlay.names[:_NAMED_MAX]) + (" and more" if len(overlay.names) > _NAMED_MAX else "")
    hint = did_you_mean(name, known) or f"there are the brokers {named}; a link is written as b1-b2"
    raise InputError(f'there is no broker or link "{name}"; {hint}')
