"""Numbers as people read them: counts with separators, shares, times and sizes in a fitting unit."""

NOTHING = "–"


def count(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}"


def share(value: float | None) -> str:
    """A share in per cent; nothing rounds up to 100 % or down to 0 %."""
    if value is None:
        return NOTHING
    text = f"{value:.2%}"
    if value < 1 and text == "100.00%":
        text = ">99.99%"
    elif value > 0 and text == "0.00%":
        text = "<0.01%"
    return text.replace("%", " %")


def time(us: float | None) -> str:
    if us is None:
        return NOTHING
    for unit, name in ((60_000_000, "min"), (1_000_000, "s"), (1_000, "ms")):
        if abs(us) >= unit * (2 if name == "min" else 1):
            return f"{_three_digits(us / unit)} {name}"
    return f"{us:,.0f} µs"


def size(value: float | None) -> str:
    if value is None:
        return NOTHING
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if abs(value) >= unit:
            return f"{_three_digits(value / unit)} {name}"
    return f"{value:,.0f} B"


def _three_digits(value: float) -> str:
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:,.{digits}f}"


def degree(value: float | None) -> str:
    """From 0 to 1; only 1 itself is written as 1."""
    if value is None:
        return NOTHING
    return ">0.9999" if value < 1 and f"{value:.4f}" == "1.0000" else f"{value:.4f}"


def ratio(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.2f}"
