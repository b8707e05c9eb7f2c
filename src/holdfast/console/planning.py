"""What if: a network file with a few values changed, what each subscriber would get, and the file to keep."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from holdfast.model.errors import InputError
from holdfast.network.document import Document, document_of
from holdfast.network.load import parse_text
from holdfast.network.schema import Network
from holdfast.network.writing import to_toml
from holdfast.planner.expected import expected_shares

_CYCLE_S = 86_400.0  # what fails for a share of the time fails once a day, where the file does not say
_CHANGES_MAX = 1_000  # brokers, links and values in one question
_BROKER_VALUES = ("availability",)
_LINK_VALUES = ("availability", "loss", "delay_ms")
_OTHER_VALUES = {  # what else can be tried, as the key of the network file
    "lifetime_s": ("workload", "lifetime_s"),
    "recovery": ("reliability", "recovery"),
    "hops": ("reliability", "hops"),
}
_FAILING = ("mtbf_s", "mttr_s", "availability", "cycle_s")


class PlanDesk:
    def __init__(self, network: Network) -> None:
        self._network = network
        self._before = _shares(network)

    def about(self) -> dict[str, Any]:
        """What can be changed, with the values of now."""
        network = self._network
        lifetimes = network.document.data.get("workload", {}).get("lifetime_s") if network.document else None
        return {
            "name": network.name,
            "brokers": [{"name": each.id, **_availability(each.mtbf_us, each.mttr_us)} for each in network.brokers],
            "links": [
                {
                    "a": each.a,
                    "b": each.b,
                    "loss": each.loss_ratio,
                    "delay_ms": each.delay_us / 1e3,
                    **_availability(each.mtbf_us, each.mttr_us),
                }
                for each in network.links
            ],
            "lifetime_s": lifetimes,
            "recovery": "none" if network.reliability.guarantees.recovery is None else "end-to-end",
            "hops": network.reliability.hops.hops,
            "shares": self._before,
        }

    def tried(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """The shares before and after, and the file; an InputError that names what is wrong with a change."""
        document = changed(self._document(), changes)
        after = _shares(parse_text(document.text, document.name))
        return {"before": self._before, "after": after, "file": document.text}

    def _document(self) -> Document:
        return self._network.document or document_of(self._network.text, self._network.name)


def changed(document: Document, changes: Mapping[str, Any]) -> Document:
    """The document with these brokers, links and values changed."""
    data = deepcopy(dict(document.data))
    brokers, links, others = (changes.get(each, {}) for each in ("brokers", "links", "values"))
    if not all(isinstance(each, Mapping) for each in (brokers, links, others)):
        raise InputError("expected brokers, links and values, each with what changes about what")
    if len(brokers) + len(links) + len(others) > _CHANGES_MAX:
        raise InputError(f"at most {_CHANGES_MAX:,} changes at once")
    for name, values in brokers.items():
        _put(data.setdefault("broker", []), {"id": name}, _known(values, _BROKER_VALUES))
    for name, values in links.items():
        ends = str(name).split("~")
        if len(ends) != 2:
            raise InputError(f"{name!r} is not a link; write it as b1~b2")
        _put(data.setdefault("link", []), {"between": ends}, _known(values, _LINK_VALUES))
    for name, value in others.items():
        if name not in _OTHER_VALUES:
            raise InputError(f"{name!r} cannot be changed here; there are {', '.join(_OTHER_VALUES)}")
        table, key = _OTHER_VALUES[name]
        data.setdefault(table, {})[key] = value
    _without_empty(data)
    return document_of(to_toml(data), document.name)


def _known(values: object, names: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(values, Mapping):
        raise InputError(f"expected values for {', '.join(names)}")
    unknown = [each for each in values if each not in names]
    if unknown:
        raise InputError(f"{unknown[0]!r} cannot be changed here; there are {', '.join(names)}")
    return dict(values)


def _put(tables: list[dict[str, Any]], about: dict[str, Any], values: dict[str, Any]) -> None:
    [(key, wanted)] = about.items()
    same = [each for each in tables if _same(each.get(key), wanted)]
    table = same[0] if same else dict(about)
    if not same:
        tables.append(table)
    if "availability" in values:
        cycle_s = table.get("cycle_s", _CYCLE_S)
        for each in _FAILING:
            table.pop(each, None)
        values["cycle_s"] = cycle_s
    table.update(values)


def _same(given: object, wanted: object) -> bool:
    return set(given) == set(wanted) if isinstance(given, list) and isinstance(wanted, list) else given == wanted


def _without_empty(data: dict[str, Any]) -> None:
    for key in ("broker", "link"):
        if data.get(key) == []:
            del data[key]


def _availability(mtbf_us: int | None, mttr_us: int | None) -> dict[str, float]:
    return {"availability": round(mtbf_us / (mtbf_us + mttr_us), 9) if mtbf_us and mttr_us else 1.0}


def _shares(network: Network) -> dict[str, list[float]]:
    return {name: [each.direct, each.in_the_end] for name, each in expected_shares(network).items()}
