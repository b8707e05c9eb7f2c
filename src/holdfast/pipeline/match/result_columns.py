"""The columns of a result, and what is wrong with those that conditions look at; the same for both engines."""

from collections import Counter
from collections.abc import Collection, Iterable

from holdfast.model.errors import InputError
from holdfast.model.values import Kind

ALL = "*"  # in place of names: every column


def refuse_unfit(unfit: Iterable[tuple[str, str]]) -> None:
    named = [f"{name} is {kind}" + (" (cast it to double)" if "decimal" in kind else "") for name, kind in unfit]
    if named:
        raise InputError(
            f"events: conditions mention columns of types that cannot be matched: {'; '.join(named)}; "
            "expected strings, integers, floats, booleans, timestamps, dates or arrays of one of them"
        )


def result_columns(names: Collection[str], key: Iterable[str], keep: Iterable[str]) -> tuple[list[str], list[str]]:
    """The event columns of the result: those before `subscription`, and those after it."""
    keys, kept = list(key), list(keep)
    if kept == [ALL]:
        kept = [name for name in names if name not in keys]
    absent = [name for name in dict.fromkeys([*keys, *kept]) if name not in names]
    if absent:
        raise InputError(f"events: there is no column {', '.join(absent)}; there are {', '.join(names)}")
    shown = [*(keys or ["row"]), "subscription", *kept]
    twice = sorted({name for name in shown if shown.count(name) > 1})
    if twice:
        raise InputError(f"the result would have two columns called {', '.join(twice)}; rename or leave out one")
    return keys, kept


def warnings_of(
    uses: Counter[tuple[str, Kind | None]], subscriptions: int, names: Collection[str], kinds: dict[str, Kind | None]
) -> list[str]:
    """Conditions that cannot hold because of what the table is, which are mistakes more often than not."""
    found = [] if subscriptions else ["there are no subscriptions, so nothing matches"]
    for (attribute, kind), count in sorted(uses.items(), key=lambda use: use[0][0]):
        number = f"{count:,} subscriptions look" if count > 1 else "1 subscription looks"
        if attribute not in names:
            if kind is not None:
                found.append(f"{number} at {attribute}, and the events have no such column")
        elif kind is not None and (here := kinds[attribute]) is not None and here is not kind:
            found.append(f"{number} at {attribute} as a {kind.value}, and it holds {here.value}s")
    return found
