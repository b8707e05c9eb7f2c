"""Packets of every kind, drawn, and a few as the specification writes them."""

from typing import Any

from hypothesis import strategies as st

from holdfast.mqtt.packets import (
    AskedFilter,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    PublishAck,
    PublishPacket,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    Will,
)
from holdfast.mqtt.properties import TABLE
from holdfast.mqtt.reasons import ALLOWED

_NAMES = st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="+#"), min_size=1, max_size=9)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=9)
_SHORTS = st.integers(1, 65_535)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "response_topic": _NAMES,
    "user_property": st.lists(st.tuples(_TEXTS, _TEXTS), min_size=1, max_size=3),
    "correlation_data": st.binary(max_size=9),
    "authentication_data": st.binary(max_size=9),
    "message_expiry_interval": st.integers(0, 2**32 - 1),
    "session_expiry_interval": st.integers(0, 2**32 - 1),
    "will_delay_interval": st.integers(0, 2**32 - 1),
    "maximum_packet_size": st.integers(1, 2**32 - 1),
    "server_keep_alive": _SHORTS,
    "receive_maximum": _SHORTS,
    "topic_alias_maximum": _SHORTS,
    "topic_alias": _SHORTS,
}
_FLAGS = ("indicator", "information", "available", "maximum_qos")


@st.composite
def properties(draw: st.DrawFn, packet: str, version: int) -> dict[str, Any]:
    if version < 5:
        return {}
    found: dict[str, Any] = {}
    for each in TABLE.values():
        if packet not in each.packets or each.name.startswith("authentication") or not draw(st.booleans()):
            continue
        if each.name == "subscription_identifier":
            found[each.name] = draw(
                st.lists(st.integers(1, 2**28 - 1), min_size=1, max_size=2 if packet == "publish" else 1)
            )
        elif each.name in _VALUES:
            found[each.name] = draw(_VALUES[each.name])
        elif each.name.endswith(_FLAGS) and each.name != "response_information":
            found[each.name] = draw(st.integers(0, 1))
        else:
            found[each.name] = draw(_TEXTS)
    return found


@st.composite
def packets(draw: st.DrawFn, version: int) -> Packet:
    kind = draw(st.integers(1, 15 if version == 5 else 14))
    reasons = lambda name: st.sampled_from(sorted(ALLOWED[name])) if version == 5 else st.just(0)  # noqa: E731
    of = lambda name: draw(properties(name, version))  # noqa: E731
    match kind:
        case 1:
            will = Will(
                draw(_NAMES), draw(st.binary(max_size=9)), draw(st.integers(0, 2)), draw(st.booleans()), of("will")
            )
            user = draw(st.none() | _NAMES)
            password = draw(st.none() | st.binary(max_size=9)) if user is not None or version == 5 else None
            who = draw(_NAMES), version, draw(st.booleans()), draw(st.integers(0, 65_535))
            return Connect(*who, draw(st.sampled_from([None, will])), user, password, of("connect"))
        case 2:
            return Connack(draw(reasons("connack")), draw(st.booleans()), of("connack"))
        case 3:
            qos = draw(st.integers(0, 2))
            number = draw(_SHORTS) if qos else 0
            flags = draw(st.booleans()), qos > 0 and draw(st.booleans())
            return PublishPacket(draw(_NAMES), draw(st.binary(max_size=300)), qos, *flags, number, of("publish"))
        case 4 | 5 | 6 | 7:
            name = ("puback", "pubrec", "pubrel", "pubcomp")[kind - 4]
            return PublishAck(name, draw(_SHORTS), draw(reasons(name)), of(name))  # type: ignore[arg-type]
        case 8:
            option = st.booleans() if version == 5 else st.just(False)
            handling = st.integers(0, 2) if version == 5 else st.just(0)
            asked = st.builds(AskedFilter, _NAMES, st.integers(0, 2), option, option, handling)
            return Subscribe(draw(_SHORTS), tuple(draw(st.lists(asked, min_size=1, max_size=4))), of("subscribe"))
        case 9:
            several = draw(st.lists(reasons("suback"), min_size=1, max_size=4))
            return Suback(draw(_SHORTS), tuple(several), of("suback"))
        case 10:
            return Unsubscribe(draw(_SHORTS), tuple(draw(st.lists(_NAMES, min_size=1, max_size=4))), of("unsubscribe"))
        case 11:
            several = draw(st.lists(reasons("unsuback"), min_size=1, max_size=4)) if version == 5 else []
            return Unsuback(draw(_SHORTS), tuple(several), of("unsuback"))
        case 12:
            return Pingreq()
        case 13:
            return Pingresp()
        case 14:
            return Disconnect(draw(reasons("disconnect")), of("disconnect"))
        case _:
            return Auth(draw(reasons("auth")), of("auth"))


# Written out by hand from the sections of the specification that their comments name.
EXAMPLES: list[tuple[str, int, Packet]] = [
    ("10 0d 0004 4d515454 04 02 000a 0001 70", 4, Connect("p", 4, True, 10)),  # 3.1 of 3.1.1
    ("20 02 00 00", 4, Connack(0)),  # 3.2
    ("20 03 01 00 00", 5, Connack(0, True)),
    ("32 0e 0005 746f706963 04d2 68656c6c6f", 4, PublishPacket("topic", b"hello", 1, packet_id=1234)),  # 3.3
    ("3d 0a 0003 612f62 000a 00 6869", 5, PublishPacket("a/b", b"hi", 2, True, True, 10)),
    ("40 02 04d2", 5, PublishAck("puback", 1234)),  # 3.4.2.1: a reason of 0 is left out
    ("50 03 04d2 97", 5, PublishAck("pubrec", 1234, 0x97)),
    ("62 02 0001", 4, PublishAck("pubrel", 1)),
    (
        "82 0e 000a 0003 612f62 01 0003 632f64 02",
        4,
        Subscribe(10, (AskedFilter("a/b", 1), AskedFilter("c/d", 2))),
    ),  # 3.8
    (
        "82 09 000a 02 0b 07 0001 61 2e",
        5,
        Subscribe(10, (AskedFilter("a", 2, True, True, 2),), {"subscription_identifier": [7]}),
    ),
    ("90 05 000a 000280", 4, Suback(10, (0, 2, 0x80))),
    ("a2 0c 000a 0003 612f62 0003 632f64", 4, Unsubscribe(10, ("a/b", "c/d"))),
    ("b0 02 000a", 4, Unsuback(10)),
    ("c0 00", 4, Pingreq()),
    ("d0 00", 4, Pingresp()),
    ("e0 00", 4, Disconnect()),
    ("e0 01 8e", 5, Disconnect(0x8E)),
]
