"""What a SUBSCRIBE asks for, as subscriptions with conditions, or why not.

A condition stands in the user property `$where`; `$last` and `$since` ask for events that the broker has kept. A client
that has no properties writes the condition into the filter: as a level
of its own in front, `?price > 5/market/#`, or behind a `?` at its end, where many clients refuse to send it because a
`#` is then not the last character. It narrows what the topic filter describes.
"""

from contextlib import suppress
from datetime import UTC, datetime

import msgspec

from holdfast.language.parser import parse
from holdfast.language.problems import ConditionError
from holdfast.mqtt.packets import AskedFilter, Subscribe
from holdfast.mqtt.properties import IDENTIFIER, USER
from holdfast.mqtt.reasons import FILTER_INVALID, UNSPECIFIED, malformed, protocol_error
from holdfast.mqtt.session import MqttSubscription, WantedPast
from holdfast.mqtt.topics import SHARED, TOPIC, condition_of, is_filter, may_meet

WHERE, LAST, SINCE = "$where", "$last", "$since"
LAST_MAX = 1_000_000  # a broker goes back through as many
# What a member that is gone has not acknowledged goes to another, and the specification forbids that for quality 2.
SHARED_QOS_MAX = 1
GROUP_CHARACTERS_MAX = 128  # of a group's name
_REASON_CHARACTERS_MAX = 1_000  # of a reason string: it is for a person


class SubscriptionRefused(ValueError):
    """A subscription that is not to be had."""

    def __init__(self, reason: int, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text[:_REASON_CHARACTERS_MAX]


class Asking(msgspec.Struct, frozen=True):
    """One subscription of a packet as it is asked for. Its condition has not been read: that may take a while."""

    asked: AskedFilter
    topic_filter: str
    where: str
    identifier: int
    group: str
    past: WantedPast | None


def asking_of(packet: Subscribe, asked: AskedFilter, version: int) -> Asking:
    """A `SubscriptionRefused` when it is not to be had, a MqttError when nobody may ask that way."""
    filter_, where = _parts(packet, asked, version)
    group = ""
    if filter_.startswith(SHARED):
        if asked.no_local:
            raise protocol_error("a shared subscription with the option no-local")
        group, _, filter_ = filter_.removeprefix(SHARED).partition("/")
        if not group or {"+", "#"} & set(group) or not filter_ or len(group) > GROUP_CHARACTERS_MAX:
            raise malformed(f"{asked.filter!r} is no shared subscription: write {SHARED}group/filter")
        asked = msgspec.structs.replace(asked, qos=min(asked.qos, SHARED_QOS_MAX))
    if not is_filter(filter_):
        if version < 5:
            raise malformed(f"{filter_!r} is no topic filter")
        raise SubscriptionRefused(FILTER_INVALID, f"{filter_!r} is no topic filter")
    past = _past(packet) if version == 5 else None
    if group and past is not None:
        raise SubscriptionRefused(FILTER_INVALID, f"{LAST} and {SINCE} are not for groups, which share what is new")
    return Asking(asked, filter_, where, packet.properties.get(IDENTIFIER, (0,))[0], group, past)


def wanted_of(asking: Asking, version: int, template: str) -> MqttSubscription:
    """With the condition that it comes to; a `SubscriptionRefused` when that is none."""
    condition = _condition(asking.topic_filter, asking.where, version, template)
    return MqttSubscription(asking.asked, asking.topic_filter, condition, asking.identifier, asking.group, asking.past)


def _parts(packet: Subscribe, asked: AskedFilter, version: int) -> tuple[str, str]:
    if version < 5:
        head, mark, rest = asked.filter.partition("?")
        if mark and (not head or (head.startswith(SHARED) and head.endswith("/") and head.count("/") == 2)):
            where, _, tail = rest.partition("/")
            return head + tail, where
        return head, rest
    return asked.filter, _given(packet, WHERE, "conditions; join them with AND in one")


def _given(packet: Subscribe, name: str, several: str) -> str:
    """The value of one of our user properties, empty when it is not there."""
    found: list[str] = [value for key, value in packet.properties.get(USER, ()) if key == name]
    if len(found) > 1:
        raise SubscriptionRefused(FILTER_INVALID, f"{len(found)} {several} {name}")
    return found[0] if found else ""


def _past(packet: Subscribe) -> WantedPast | None:
    last, since = _given(packet, LAST, "times").strip(), _given(packet, SINCE, "times").strip()
    if not last and not since:
        return None
    if last and not (last.isdecimal() and len(last) <= len(str(LAST_MAX)) and 1 <= int(last) <= LAST_MAX):
        raise SubscriptionRefused(
            FILTER_INVALID, f"{LAST} is {last[:40]!r}; it must be a whole number of events from 1 to {LAST_MAX:,}"
        )
    if not since:
        return WantedPast(int(last), 0)
    with suppress(ValueError):
        ago_s = float(since)
        if 0 <= ago_s < float("inf"):
            return WantedPast(int(last or 0), int(ago_s * 1e6), ago=True)
    try:
        moment = datetime.fromisoformat(since)
    except ValueError:
        raise SubscriptionRefused(
            FILTER_INVALID,
            f"{SINCE} is {since[:40]!r}; it must be a moment like 2026-01-31T09:30:00Z, or seconds ago",
        ) from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return WantedPast(int(last or 0), max(0, int(moment.timestamp() * 1e6)))


def _condition(filter_: str, where: str, version: int, template: str) -> str:
    by_topic = condition_of(filter_)
    if may_meet(filter_, template):
        by_topic = f"({by_topic}) OR {TOPIC} IS NULL"
    try:
        if not where.strip():
            return str(parse(by_topic))
        parse(where)  # alone, so that a message is about what the client wrote
        return str(parse(f"({by_topic}) AND ({where})"))
    except ConditionError as problem:
        raise SubscriptionRefused(FILTER_INVALID if version == 5 else UNSPECIFIED, str(problem)) from None
