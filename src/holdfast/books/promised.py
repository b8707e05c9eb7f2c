"""What a run was set up to promise, from the row of its table `run`."""

import json
import tomllib
from collections.abc import Mapping
from typing import Any

from holdfast.protocol.order.settings import LatchSettings

NO_ORDER = "none", 0.0


def order_promised(about: Mapping[str, Any]) -> tuple[str, float]:
    """The mode of `order`, and for "fifo" the share of the violations that may remain.

    From the resolved settings. A trace of format 2 has only the file, in which defaults are left out.
    """
    if about.get("settings"):
        order = json.loads(about["settings"])["reliability"]["guarantees"]["order"]
        return NO_ORDER if order is None else (order["mode"], order["target"])
    written = file_of(about).get("reliability", {})
    return str(written.get("order", NO_ORDER[0])), float(written.get("order_target", LatchSettings().target))


def file_of(about: Mapping[str, Any]) -> dict[str, Any]:
    """The network file that the run is of, as it was written."""
    try:
        return tomllib.loads(str(about.get("file") or ""))
    except tomllib.TOMLDecodeError:
        return {}  # a trace that something else has written; it promises nothing then
