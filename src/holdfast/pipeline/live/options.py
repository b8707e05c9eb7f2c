"""The options of `format("holdfast")`, checked all at once.

Spark hands over whatever it was given, as text and without regard to case. A name that looks like a slip for one of
ours is told; others are left alone, because Spark passes its own options along.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from holdfast.language.parser import parse
from holdfast.model.errors import InputError
from holdfast.model.settings import declared
from holdfast.model.tls_settings import TlsSettings

ROWS_PER_TRIGGER = 500_000  # of one micro-batch: one large enough to hide its fixed cost, small enough to be repeated
ROWS_PER_PARTITION = 50_000  # of one task: a second or two
DEFAULT_STREAM = "events"  # what `holdfast gateway --condition` calls its stream


@dataclass(frozen=True)
class StreamOptions:
    gateway: str | None = None
    broker: tuple[str, ...] = ()
    log: Path | None = None
    listen: str = "tcp://127.0.0.1:0"
    space: str = "holdfast"
    lanes: str = ""
    body: Literal["native", "json"] = "native"
    condition: str | None = None
    stream: str = ""
    reader: str = "spark"
    starting_offset: int | str = "earliest"
    ending_offset: int | str = "latest"
    rows_per_trigger: int = ROWS_PER_TRIGGER
    rows_per_partition: int = ROWS_PER_PARTITION
    fail_on_data_loss: bool = True
    permissive: bool = False
    lifetime_us: int | None = None
    query: str | None = None
    batch: int = 0
    patience_s: float = 60.0
    certificate: str | None = None
    key: str | None = None
    ca: str | None = None


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < 1e9:
        raise ValueError
    return number


def _number(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError
    return number


def _offset(text: str) -> int | str:
    return text.lower() if text.lower() in ("earliest", "latest") else _number(text)


def _yes_or_no(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _mode(text: str) -> bool:
    return {"failfast": False, "permissive": True}[text.lower()]


def _text(text: str) -> str:
    if not text:
        raise ValueError
    return text


_NUMBER = "a whole number above 0"
# Option as people write it: our field, how to read it, what is expected.
_KNOWN: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "gateway": ("gateway", _text, "an address such as tcp://127.0.0.1:7100"),
    "broker": ("broker", lambda text: tuple(_text(each.strip()) for each in text.split(",")), "addresses of brokers"),
    "log": ("log", lambda text: Path(_text(text)), "a folder"),
    "listen": ("listen", _text, "an address such as tcp://127.0.0.1:7100"),
    "space": ("space", _text, "the name of a space of a bus"),
    "lanes": ("lanes", _text, "a template of subjects such as plant.{site}"),
    "body": ("body", lambda text: {"native": "native", "json": "json"}[text.lower()], "native or json"),
    "condition": ("condition", lambda text: str(parse(text)), "a SQL condition"),
    "stream": ("stream", _text, "the name of a stream"),
    "reader": ("reader", _text, "a name"),
    "startingOffset": ("starting_offset", _offset, "earliest, latest or an offset"),
    "endingOffset": ("ending_offset", _offset, "latest or an offset"),
    "maxRowsPerTrigger": ("rows_per_trigger", _count, _NUMBER),
    "rowsPerPartition": ("rows_per_partition", _count, _NUMBER),
    "failOnDataLoss": ("fail_on_data_loss", _yes_or_no, "true or false"),
    "mode": ("permissive", _mode, "FAILFAST or PERMISSIVE"),
    "lifetimeSeconds": ("lifetime_us", lambda text: max(1, round(_seconds(text) * 1e6)), "a positive number"),
    "query": ("query", _text, "a name"),
    "batch": ("batch", _number, "a whole number, 0 or more"),
    "timeoutSeconds": ("patience_s", _seconds, "a positive number"),
    **{name: (name, _text, "a file") for name in declared(TlsSettings)},
}
_FORMER = {"privatekey": "key", "authority": "ca"}  # names of earlier versions, in small letters
_BY_LOWER = {name.lower(): name for name in _KNOWN}


def stream_options(given: Mapping[str, str]) -> StreamOptions:
    """What was given; an InputError with everything that is wrong with it, in one line."""
    fields: dict[str, Any] = {}
    problems = []
    for key, text in given.items():
        name = _BY_LOWER.get(_FORMER.get(key.lower(), key.lower()))
        if key.lower() in _FORMER:
            warnings.warn(f"option {key} is called {name} now", DeprecationWarning, stacklevel=2)
        if name is None:
            close = get_close_matches(key.lower(), _BY_LOWER, 1, 0.8)
            if close:
                problems.append(f"there is no option {key}; did you mean {_BY_LOWER[close[0]]}?")
            continue
        field, read, expected = _KNOWN[name]
        try:
            fields[field] = read(text)
        except InputError as problem:
            problems.append(f"option {name}: {' '.join(str(problem).split())}")
        except (ValueError, KeyError):
            problems.append(f"option {name} is {text!r}; expected {expected}")
    found = StreamOptions(**fields)
    problems += _missing(found, {"gateway", "log", "broker"} & {key.lower() for key in given})
    if problems:
        raise InputError("; ".join(problems))
    return found


def _missing(found: StreamOptions, named: set[str]) -> list[str]:
    if named == {"broker"}:
        broker = found.broker[0] if found.broker else "ADDRESS"
        return [
            "option broker alone is not enough, because a broker keeps no events to read again: start "
            f"`holdfast gateway --broker {broker} --log DIR` and give its address as option gateway, "
            "or give option log, a folder, for a gateway that lives as long as the query"
        ]
    if not named & {"gateway", "log"}:
        return ["option gateway is missing: the address of a running `holdfast gateway`, such as tcp://127.0.0.1:7100"]
    return []
