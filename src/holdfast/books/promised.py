"""What a run was set up to promise, from the row of its table `run`."""

import json
import tomllib
from collections.abc import Mapping
from typing import Any

from holdfast.protocol.order.settings import LatchSettings
from holdfast.protocol.settings import ProtocolSettings

NO_ORDER = "none", 0.0
_SECOND_US = 1_000_000


def order_promised(about: Mapping[str, Any]) -> tuple[str, float]:
    """The mode of `order`, and for "fifo" the share of the violations that may remain.

    From the resolved settings. A trace of format 2 has only the file, in which defaults are left out.
    """
    if about.get("settings"):
        order = _guarantees(about)["order"]
        return NO_ORDER if order is None else (order["mode"], order["target"])
    written = file_of(about).get("reliability", {})
    return str(written.get("order", NO_ORDER[0])), float(written.get("order_target", LatchSettings().target))


def recovery_promised(about: Mapping[str, Any]) -> bool:
    """Whether subscribers get back what was lost, or name it; `srm` notices only some of it and promises neither."""
    if about.get("settings"):
        return bool((_guarantees(about)["recovery"] or {}).get("asks"))
    written = file_of(about).get("reliability", {})
    return bool(written.get("recovery", "none") != "none" and written.get("scheme", "digest") == "digest")


def hands_over_at_once(about: Mapping[str, Any]) -> bool:
    """Whether subscribers hand over what arrives, with no recovery and no order between."""
    if about.get("settings"):
        return not any(_guarantees(about).values())
    written = file_of(about)
    return bool(written) and not {"recovery", "order"} & set(written.get("reliability", {}))


def heartbeat_and_lease_us(about: Mapping[str, Any]) -> tuple[int, int]:
    """How often neighbours compare their tables, and after how long a silence they forget each other."""
    if about.get("settings"):
        protocol = json.loads(about["settings"])["protocol"]
        return protocol["heartbeat_us"], protocol["lease_us"]
    written, default = file_of(about).get("protocol", {}), ProtocolSettings()
    heartbeat_s = written.get("heartbeat_s", default.heartbeat_us / _SECOND_US)
    lease_s = written.get("lease_s", default.lease_us / _SECOND_US)
    return round(heartbeat_s * _SECOND_US), round(lease_s * _SECOND_US)


def _guarantees(about: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(about["settings"])["reliability"]["guarantees"]
    return found


def file_of(about: Mapping[str, Any]) -> dict[str, Any]:
    """The network file that the run is of, as it was written."""
    try:
        return tomllib.loads(str(about.get("file") or ""))
    except tomllib.TOMLDecodeError:
        return {}  # a trace that something else has written; it promises nothing then
