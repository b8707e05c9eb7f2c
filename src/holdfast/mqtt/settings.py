"""How a broker serves MQTT clients."""

from dataclasses import dataclass
from typing import Literal

from holdfast.model.limits import ATTRIBUTES_BYTES_MAX, PAYLOAD_BYTES_MAX
from holdfast.model.settings import Settings, setting


@dataclass(frozen=True)
class MqttSettings(Settings):
    """How a broker serves MQTT clients."""

    topic: str = setting(
        "events/{source}",
        "topic of an event whose publisher gave it none; {source} is the publisher, {name} an attribute",
        "MQTT clients can then subscribe to one publisher's events, or to all",
        unchecked=True,
    )
    json: tuple[str, ...] = setting(
        (),
        "topic filters of payloads that are read as JSON whatever their content type says",
        "a payload is the application's own unless it says that it is JSON",
        unchecked=True,
    )
    recovery: bool = setting(
        False,
        "recover what the network loses for MQTT clients and of their events, as native clients with recovery do",
        "publishers have to keep their events for it, and here the broker keeps them",
    )
    order: Literal["none", "fifo", "strict"] = setting(
        "none", "keep the order of each publisher's events for MQTT clients, as for native ones", "waiting costs delay"
    )
    packet_bytes_max: int = setting(
        PAYLOAD_BYTES_MAX + ATTRIBUTES_BYTES_MAX, "largest packet", "an event of the largest size", unit="bytes"
    )
    receive_max: int = setting(
        65_535,
        "publications that a client may have unacknowledged",
        "some clients send all they have when they come back, whatever they were told; reading waits for the broker",
        at_most=65_535,
    )
    in_flight_max: int = setting(
        1_000,
        "deliveries that a client may have unacknowledged, if it says nothing less",
        "a round trip of 50 ms at 20,000 a second",
        at_most=65_535,
    )
    alias_max: int = setting(10, "topic aliases that a client may use", "a device has few topics", at_most=65_535)
    keep_alive_s_max: int = setting(
        3_600, "longest time between two packets of a client of version 5", "a dead one holds a session", at_most=65_535
    )
    session_s_max: int = setting(
        604_800, "how long a session may last without a connection", "a week: a device that is repaired finds it again"
    )
