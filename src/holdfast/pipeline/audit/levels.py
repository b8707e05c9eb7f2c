"""The four levels at which figures are given: each pair of subscriber and publisher, each of the two, and the run."""

NOBODY = ""  # in place of a subscriber or source that a level does not have; unlike null it equals itself in a join
GROUP = ("scope", "run", "subscriber", "source")  # together they name a group
_KEYS = ("subscriber", "source")
# Each level by the keys that its groups have, beside the run.
LEVELS = {"pair": _KEYS, "subscriber": ("subscriber",), "publisher": ("source",), "run": ()}
_SCOPES = " ".join(
    "WHEN " + " AND ".join(f"grouping({key}) = {int(key not in keys)}" for key in _KEYS) + f" THEN '{scope}'"
    for scope, keys in LEVELS.items()
)


def at_all_levels(rows: object, sums: str, *others: str) -> str:
    """A query for sums over a relation of pairs, for every group of every level, and each value of other columns."""
    sets = ", ".join(f"({', '.join(['run', *keys, *others])})" for keys in LEVELS.values())
    named = ", ".join(f"coalesce({key}, '{NOBODY}') AS of_{key}" for key in _KEYS)
    columns = ", ".join(["run", *others])
    return f"""SELECT CASE {_SCOPES} END AS scope, {named}, {columns}, {sums}
        FROM {rows} GROUP BY GROUPING SETS ({sets})"""
