"""What a SUBSCRIBE asks for, as subscriptions with conditions, or why not.

A condition stands in the user property `$where`. A client that has no properties writes it into the filter: as a level
of its own in front, `?price > 5/market/#`, or behind a `?` at its end, where many clients refuse to send it because a
`#` is then not the last character. It narrows what the topic filter describes.
"""

import msgspec

from holdfast.language.parser import parse
from holdfast.language.problems import ConditionError
from holdfast.mqtt.packets import AskedFilter, Subscribe
from holdfast.mqtt.properties import IDENTIFIER, USER
from holdfast.mqtt.reasons import FILTER_INVALID, UNSPECIFIED, malformed, protocol_error
from holdfast.mqtt.session import MqttSubscription
from holdfast.mqtt.topics import SHARED, TOPIC, condition_of, is_filter, may_meet

WHERE = "$where"
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


def wanted_of(packet: Subscribe, asked: AskedFilter, version: int, template: str) -> MqttSubscription:
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
    identifier = packet.properties.get(IDENTIFIER, (0,))[0]
    return MqttSubscription(asked, filter_, _condition(filter_, where, version, template), identifier, group)


def _parts(packet: Subscribe, asked: AskedFilter, version: int) -> tuple[str, str]:
    if version < 5:
        head, mark, rest = asked.filter.partition("?")
        if mark and (not head or (head.startswith(SHARED) and head.endswith("/") and head.count("/") == 2)):
            where, _, tail = rest.partition("/")
            return head + tail, where
        return head, rest
    found = [value for name, value in packet.properties.get(USER, ()) if name == WHERE]
    if len(found) > 1:
        raise SubscriptionRefused(FILTER_INVALID, f"{len(found)} conditions; join them with AND in one {WHERE}")
    return asked.filter, found[0] if found else ""


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
