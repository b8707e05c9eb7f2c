"""Frames as bytes beside what they mean. From the first release on they are never changed: a frame that must
look different then needs a new version.

To read one by hand: 01 is the version, 00 the kind (01 for a signal), 91 an array of one message; the rest is
MessagePack.
"""

from datetime import UTC, datetime

from holdfast.model.messages import (
    Arrived,
    Batch,
    Deliver,
    Delta,
    Detach,
    GivenUp,
    GossipComplete,
    GossipDigest,
    GossipEvent,
    GossipPull,
    GossipRequest,
    GossipVector,
    Handover,
    Heartbeat,
    HighestSent,
    KeepAlive,
    LinkState,
    Message,
    Nack,
    Numbered,
    NumberedOutage,
    Outage,
    Publication,
    Publish,
    Reachable,
    Snapshot,
    Stamp,
    Stamped,
    StoredAck,
    TableRefused,
)
from holdfast.model.replication_messages import (
    CopyDone,
    CopyOpen,
    Echo,
    EchoAnswer,
    HighWaterMarks,
    LastAdvertisement,
    LastSubscription,
    Neighbours,
    ReplicaRelease,
    ReplicaRequest,
    Retired,
)
from holdfast.wire.signals import (
    Ack,
    AskPast,
    Challenge,
    Hello,
    Hold,
    Mark,
    Missed,
    Past,
    Ping,
    Pong,
    Refusal,
    Signal,
    Welcome,
)

MOMENT = datetime(2020, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)

STAMP = Stamp("b1", 5, ((7, 3, 2), (2**32 - 1, 300, 0)))

MESSAGES: list[tuple[str, Message]] = [
    (
        "01 00 91 95 a3707562 97 a66465736b2d31 07 cf00060a24181e4000 c0"
        "83 a673796d626f6c a349424d a57072696365 cb4058e00000000000 a6766f6c756d65 cd04b0"
        "c400 c0 90 00 a86f726967696e616c",
        Publish(
            Publication("desk-1", 7, 1_700_000_000_000_000, None, {"symbol": "IBM", "price": 99.5, "volume": 1200})
        ),
    ),
    (
        "01 00 91 95 a3707562 97 a170 01 00 ce004c4b40 80 c40200ff c0 92 a26232 a26233 03 a96d756c746970617468",
        Publish(Publication("p", 1, 0, 5_000_000, {}, b"\x00\xff"), ("b2", "b3"), 3, "multipath"),
    ),
    (  # lists: ['a', NULL], [1, 2.5], and one of nothing
        "01 00 91 95 a3707562 97 a170 01 00 c0"
        "83 a474616773 92 a161 c0 a16e 92 01 cb4004000000000000 a46e6f6e65 90 c400 c0 90 00 a86f726967696e616c",
        Publish(Publication("p", 1, 0, None, {"tags": ["a", None], "n": [1, 2.5], "none": []})),
    ),
    (  # 1,767,312,000 s is 2026-01-02
        "01 00 91 9a a372756e 92 01 02 a170 92 03 04 92 81 a174 91 c3 81 a174 91 d6ff69570a80 90 00 00 00 c400",
        Batch((1, 2), "p", (3, 4), ({"t": [True]}, {"t": [datetime(2026, 1, 2, tzinfo=UTC)]}), (), 0),
    ),
    (
        "01 00 91 93 a364656c 97 a170 cf4000000000000000 01 00"
        "85 a161 cb8000000000000000 a162 c3 a163 c0 a164 cfffffffffffffffff a165 d38000000000000000"
        "c400 c0 a6726570616972",
        Deliver(
            Publication("p", 2**62, 1, 0, {"a": -0.0, "b": True, "c": None, "d": 2**64 - 1, "e": -(2**63)}), "repair"
        ),
    ),
    (
        "01 00 91 93 a364656c 97 a170 01 01 c0 83 a174 d7ffa1dcd4205e0d5da5 a173 a3313230 a16e a2c3a9 c400 c0"
        "a86f726967696e616c",
        Deliver(Publication("p", 1, 1, None, {"t": MOMENT, "s": "120", "n": "é"})),
    ),
    (
        "01 00 91 95 a374656c ad737562736372697074696f6e73 03 91 ab7072696365203c20313230"
        "91 ae73796d626f6c203d202749424d27",
        Delta("subscriptions", 3, ("price < 120",), ("symbol = 'IBM'",)),
    ),
    (
        "01 00 91 96 a3616c6c ae6164766572746973656d656e7473 09 92 a454525545 a561203d2031 00 01",
        Snapshot("advertisements", 9, ("TRUE", "a = 1")),
    ),
    (
        "01 00 91 96 a3616c6c ad737562736372697074696f6e73 09 91 a561203d2031 02 04",
        Snapshot("subscriptions", 9, ("a = 1",), 2, 4),
    ),
    (
        "01 00 91 93 a3726673 ad737562736372697074696f6e73 a466756c6c",
        TableRefused("subscriptions", "full"),
    ),
    (
        "01 00 91 95 a373756d cf00060a24181e4000 92 92 03 cfffffffffffffffff 92 00 00 92 02 11 a662726f6b6572",
        Heartbeat(1_700_000_000_000_000, ((3, 2**64 - 1), (0, 0)), (2, 17)),
    ),
    (
        "01 00 91 95 a373756d 05 92 92 00 00 92 00 00 92 00 00 a6636c69656e74",
        Heartbeat(5, ((0, 0), (0, 0)), kind="client"),
    ),
    (
        "01 00 91 97 a36c7361 a26231 05 02 91 a26232 91 a561203d2031 91 a26232",
        LinkState("b1", 5, 2, ("b2",), ("a = 1",), ("b2",)),
    ),
    ("01 00 91 91 a3627965", Detach()),
    ("01 00 91 98 a36f7574 a26231 a26232 cd03e8 02 c2 00 c2", Outage("b1", "b2", 1_000, 2)),
    ("01 00 91 98 a36f7574 a26231 a26232 cd03e8 02 c3 cd1388 c3", Outage("b1", "b2", 1_000, 2, True, 5_000, True)),
    ("01 00 91 92 a3726368 92 a26231 a26232", Reachable(("b1", "b2"))),
    (
        "01 00 91 9a a372756e 92 07 09 a66465736b2d31 92 01 cf00060a24181e4000"
        "92 82 a673796d626f6c a349424d a57072696365 cb4058e00000000000 80 90 00 00 00 c400",
        Batch((7, 9), "desk-1", (1, 1_700_000_000_000_000), ({"symbol": "IBM", "price": 99.5}, {}), (), 0),
    ),
    (
        "01 00 91 9a a372756e 91 01 a170 91 00 91 81 a174 d7ffa1dcd4205e0d5da5 91 c40200ff 03 01 00 c4020103",
        Batch((1,), "p", (0,), ({"t": MOMENT},), (b"\x00\xff",), 3, 1, 0, b"\x01\x03"),
    ),
    (
        "01 00 91 95 a36e756d 05 cd0100 c3 95 a3707562 97 a170 01 00 c0 80 c400 c0 90 02 a86f726967696e616c",
        Numbered(5, 256, True, Publish(Publication("p", 1, 0, None, {}), (), 2)),
    ),
    (
        "01 00 91 95 a36e756d 05 01 c2 93 a364656c 97 a170 01 00 c0 80 c400 c0 a86f726967696e616c",
        Numbered(5, 1, False, Deliver(Publication("p", 1, 0, None, {}))),
    ),
    (
        "01 00 91 95 a36e6f75 05 07 c3 98 a36f7574 a26231 a26232 cd03e8 02 c2 00 c2",
        NumberedOutage(5, 7, True, Outage("b1", "b2", 1_000, 2)),
    ),
    ("01 00 91 93 a36e616b 05 92 07 09", Nack(5, (7, 9))),
    ("01 00 91 94 a36c6174 05 09 03", HighestSent(5, 9, 3)),
    ("01 00 91 93 a3617276 05 09", Arrived(5, 9)),
    (
        "01 00 91 97 a3737470 97 a170 01 00 c0 80 c400 c0 93 a26231 05 92 93 07 03 02 93 ceffffffff cd012c 00"
        "92 a26231 a26232 90 02 a86f726967696e616c",
        Stamped(Publication("p", 1, 0, None, {}), STAMP, ("b1", "b2"), (), 2),
    ),
    (
        "01 00 91 96 a3676f64 91 a26231 07 91 92 a170 92 01 cd012c 90 00",
        GossipDigest(("b1",), 7, (("p", (1, 300)),)),
    ),
    (
        "01 00 91 97 a3676f70 92 a26231 a26232 91 94 a26233 05 07 92 03 04 07 90 90 00",
        GossipPull(("b1", "b2"), (("b3", 5, 7, (3, 4)),), 7),
    ),
    (
        "01 00 91 97 a3676f70 91 a26231 91 94 a26233 05 07 91 03 c0 92 a26232 a26233 90 00",
        GossipPull(("b1",), (("b3", 5, 7, (3,)),), None, ("b2", "b3")),
    ),
    (
        "01 00 91 95 a3676f76 91 a26231 05 92 94 07 04 00 91 02 94 09 00 cd012c 90 90",
        GossipVector(("b1",), 5, ((7, 4, 0, (2,)), (9, 0, 300, ()))),
    ),
    ("01 00 91 93 a3676f63 a26231 91 a26232", GossipComplete("b1", ("b2",))),
    (
        "01 00 91 94 a3676f72 91 a26231 91 92 a170 91 01 91 a26232",
        GossipRequest(("b1",), (("p", (1,)),), ("b2",)),
    ),
    (
        "01 00 91 94 a3676f65 97 a170 01 00 c0 80 c400 c0 93 a26231 05 92 93 07 03 02 93 ceffffffff cd012c 00 90",
        GossipEvent(Publication("p", 1, 0, None, {}), STAMP),
    ),
    (
        "01 00 91 94 a3676f65 97 a170 01 00 c0 80 c400 c0 c0 92 a26232 a26231",
        GossipEvent(Publication("p", 1, 0, None, {}), None, ("b2", "b1")),
    ),
    (
        "01 00 91 96 a3686e64 05 09 07 c2 93 a364656c 97 a170 01 00 c0 80 c400 c0 a86f726967696e616c",
        Handover(5, 9, 7, False, Deliver(Publication("p", 1, 0, None, {}))),
    ),
    ("01 00 91 96 a3686e64 05 09 07 c3 c0", Handover(5, 9, 7, True, None)),
    ("01 00 91 96 a3746b6e 05 09 91 0b 0c 07", StoredAck(5, 9, (11,), 12, 7)),
    ("01 00 91 95 a3677570 05 06 07 a3617761", GivenUp(5, 6, 7, "awa")),
    ("01 00 91 91 a3616c76", KeepAlive()),
    (
        "01 00 91 95 a3727271 05 a166 a56261736963 a86661696c6f766572",
        ReplicaRequest(5, "f", "basic", "failover"),
    ),
    ("01 00 91 93 a36c6164 05 09", LastAdvertisement(5, 9)),
    ("01 00 91 94 a36c7375 05 09 07", LastSubscription(5, 9, 7)),
    ("01 00 91 92 a3726f70 05", CopyOpen(5)),
    ("01 00 91 93 a372646e 05 09", CopyDone(5, 9)),
    ("01 00 91 93 a36d726b 91 92 a170 07 c3", HighWaterMarks((("p", 7),), onwards=True)),
    ("01 00 91 92 a36e6273 92 a161 a162", Neighbours(("a", "b"))),
    ("01 00 91 92 a3727464 a3662b31", Retired("f+1")),
    ("01 00 91 93 a372656c 05 a5647261696e", ReplicaRelease(5, "drain")),
    ("01 00 91 92 a3656368 05", Echo(5)),
    ("01 00 91 94 a3656361 05 07 c2", EchoAnswer(5, 7, stays_alone=False)),
]

SIGNALS: list[tuple[str, Signal]] = [
    ("01 01 99 a470617374 07 a56e203e2031 05 02 a26162 09 64 c2", AskPast(7, "n > 1", 5, 2, "ab", 9, 100, False)),
    ("01 01 98 a46b657074 07 a26162 0c 0f 03 c40101 a26e6f", Past(7, "ab", 12, 15, 3, b"\x01", "no")),
    (
        "01 01 dc0012 a568656c6c6f a26231 a662726f6b6572 05 c0 00 00 00 c2 c0 00 00 c0 c2 c400 c400 a0 00",
        Hello("b1", "broker", 5),
    ),
    (
        "01 01 dc0012 a568656c6c6f a163 a6636c69656e74 05 c0 09 07 03 c3 c0 00 00 c0 c3 c400 c400 a0 00",
        Hello("c", "client", 5, None, 9, 7, 3, True, repairs=True),
    ),
    (
        "01 01 dc0012 a568656c6c6f a163 a6636c69656e74 05 c0 00 00 00 c2 c3 00 00 c0 c2 c400 c400 a0 00",
        Hello("c", "client", 5, durable=True),
    ),
    ("01 01 9c a777656c636f6d65 a26232 a662726f6b6572 06 c3 00 00 00 00 c2 c400 c2", Welcome("b2", "broker", 6, True)),
    (
        "01 01 9c a777656c636f6d65 a26232 a662726f6b6572 06 c0 07 03 08 00 c3 c400 c3",
        Welcome("b2", "broker", 6, None, 7, 3, 8, repairs=True, keeps=True),
    ),
    (
        "01 01 dc0012 a568656c6c6f a163 a6636c69656e74 05 c0 00 00 00 c2 c0 00 00 c0 c2 c4016e c40170 a174 07",
        Hello("c", "client", 5, nonce=b"n", proof=b"p", token="t", secret=7),
    ),
    ("01 01 92 a96368616c6c656e6765 c4016e", Challenge(b"n")),
    (
        "01 01 93 a77265667573616c a574616b656e"
        "d923616e6f7468657220636c69656e74206e616d6564207820697320636f6e6e6563746564",
        Refusal("taken", "another client named x is connected"),
    ),
    ("01 01 92 a470696e67 03", Ping(3)),
    ("01 01 92 a4706f6e67 03", Pong(3)),
    ("01 01 92 a361636b 40", Ack(64)),
    ("01 01 94 a66d6973736564 05 06 07", Missed(5, 6, 7)),
    ("01 01 92 a46d61726b 07", Mark(7)),
    ("01 01 91 a4686f6c64", Hold()),
]
