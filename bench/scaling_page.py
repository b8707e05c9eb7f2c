"""The tables of docs/scaling.md, from what `bench scaling` has saved."""

from collections.abc import Mapping
from typing import Any

from bench.scaling_cells import MECHANISMS
from bench.scaling_large import TARGET_MIB, TARGET_S

_SHOWN = {
    "broker_messages": "messages",
    "broker_bytes": "bytes",
    "broker_state_bytes": "state",
    "broker_cpu_us": "CPU",
    "broker_setup_bytes": "start, bytes",
    "publisher_messages": "messages",
    "publisher_bytes": "bytes",
    "publisher_state_bytes": "state",
    "publisher_cpu_us": "CPU",
    "subscriber_messages": "messages",
    "subscriber_bytes": "bytes",
    "subscriber_state_bytes": "state",
    "subscriber_cpu_us": "CPU",
}
_NAMES = {"control": "control messages", "setup_messages": "messages at the start", "setup_bytes": "bytes at the start"}


def section(data: Mapping[str, Any]) -> str:
    axes = dict.fromkeys(row["axis"] for row in data["slopes"])
    parts = [f"### With {'the rate' if axis == 'rate' else axis}\n\n{_slopes(data, axis)}" for axis in axes]
    parts += [f"### Beside closed forms\n\n{_laws(data)}", f"### One network\n\n{_base(data)}"]
    return "\n\n".join([*parts, f"### Up to a million subscribers\n\n{_large(data)}"])


def _table(heads: list[str], rows: list[list[str]], left: int = 1) -> str:
    marks = "|---" * left + "|--:" * (len(heads) - left) + "|"
    lines = [f"| {' | '.join(each)} |" for each in [heads, *rows]]
    return "\n".join([lines[0], marks, *lines[1:]])


def _fit(found: Mapping[str, float] | None) -> str:
    if found is None:
        return ""
    half = (found["high"] - found["low"]) / 2
    return f"{found['slope'] + 0.0:.2f} ± {half:.2f}".replace("-0.00", "0.00")


def _slopes(data: Mapping[str, Any], axis: str) -> str:
    cells = [cell[axis] for cell in data["cells"]]
    heads = [f"{axis}, {min(cells):,} to {max(cells):,}"]
    heads += [f"{each.partition('_')[0]}: {name}" for each, name in _SHOWN.items()]
    rows = [row for row in data["slopes"] if row["axis"] == axis]
    return _table(heads, [[row["mechanism"], *[_fit(row.get(each)) for each in _SHOWN]] for row in rows])


def _laws(data: Mapping[str, Any]) -> str:
    heads = [
        "mechanism",
        "of a",
        "what",
        "closed form",
        "because",
        "along",
        "its slope",
        "measured",
        "times its value",
        "elsewhere",
    ]
    rows = [
        [
            row["mechanism"],
            row["role"],
            _NAMES.get(row["quantity"], row["quantity"]),
            row["law"],
            row["why"],
            row["axis"],
            f"{row['expected']:.2f}",
            _fit(row["measured"]),
            f"{row['least']:.2f} to {row['most']:.2f}",
            f"{row['elsewhere']:.2f}" if "elsewhere" in row else "",
        ]
        for row in data["laws"]
    ]
    return _table(heads, rows, left=6)


def _base(data: Mapping[str, Any]) -> str:
    """What a node of each role does a second in the network from which all axes start."""
    base = {"brokers": 30, "subscribers": 90, "conditions": 30, "publishers": 6, "rate": 6}
    cells = {cell["mechanism"]: cell for cell in data["cells"] if base.items() <= cell.items()}
    heads = ["a second"]
    for role in ("broker", "publisher", "subscriber"):
        heads += [f"{role}: messages", "bytes", "state, kB", "CPU, µs"]
    rows = []
    for name in [each for each in MECHANISMS if each in cells]:
        row = [name]
        for role in ("broker", "publisher", "subscriber"):
            found = cells[name][role]
            row += [f"{found['messages']:.1f}", f"{found['bytes']:,.0f}"]
            row += [f"{found['state_bytes'] / 1e3:.1f}", f"{found['cpu_us']:,.0f}"]
        rows.append(row)
    return _table(heads, rows)


def _large(data: Mapping[str, Any]) -> str:
    heads = ["", "subscribers", "brokers", "heartbeat, s", "simulated, s"]
    heads += ["CPU, s", "of it start, s", "MiB", "messages", "delivered"]
    rows = []
    for row in sorted(data["large"], key=lambda row: (row["mechanism"], row["heartbeat_s"], row["subscribers"])):
        start_s = row["cpu_s"] - row["rest_s"]
        numbers = [f"{row['subscribers']:,}", f"{row['brokers']:,}", f"{row['heartbeat_s']:g}", f"{row['seconds']}"]
        numbers += [f"{row['cpu_s']:,.0f}", f"{start_s:,.0f}", f"{row['mib']:,.0f}"]
        rows.append([row["mechanism"], *numbers, f"{row['messages']:,}", f"{row['delivery_ratio']:.2%}"])
    whole = ["1,000,000", "10,000"]
    for row in data["expected"]:
        numbers = [f"{row['heartbeat_s']:g}", "60", f"{row['cpu_s']:,.0f}", "", f"{row['mib']:,.0f}"]
        rows.append([f"{row['mechanism']}, extrapolated", *whole, *numbers, "", ""])
    rows.append(["aimed at", *whole, "1", "60", f"{TARGET_S:,}", "", f"{TARGET_MIB:,}", "", ""])
    return _table(heads, rows)
