"""What a trace says of the run that made it: enough to run it again."""

from typing import Any

from msgspec import to_builtins

from holdfast import __version__
from holdfast.network.schema import Network


def about_run(network: Network, driver: str, seed: int) -> dict[str, Any]:
    return {
        "name": network.name,
        "driver": driver,
        "version": __version__,
        "seed": seed,
        "file": network.text,
        "settings": resolved(network),
    }


def resolved(network: Network) -> dict[str, Any]:
    """All settings that decide what nodes do, defaults included, in the units of their names.

    Without places on this machine (the store's folder, certificates): the same file and seed give the same trace.
    """
    settings = {
        "duration_us": network.duration_us,
        "routing": network.routing,
        "lossy_control": network.lossy_control,
        "transport": network.transport.kind,
        "protocol": network.protocol,
        "reliability": {
            "hops": network.reliability.hops,
            "guarantees": network.reliability.guarantees,
            "gossip": network.reliability.gossip,
        },
        "replication": network.replication,
    }
    found: dict[str, Any] = to_builtins(settings)
    return found
