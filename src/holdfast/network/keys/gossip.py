"""The keys of epidemic recovery, all within reliability."""

from typing import get_args

from holdfast.network.keys.units import DELAY, SHARE, SPAN, seconds
from holdfast.network.shapes import Flag, Number, Word
from holdfast.network.tables import Key
from holdfast.protocol.gossip.settings import GossipSettings, StyleName, Transfer

_GOSSIP = GossipSettings()
_ANY = ("gossip", get_args(StyleName))  # what a key goes with

GOSSIP_KEYS = (
    Key(
        "gossip",
        Word(("none", *get_args(StyleName))),
        "how brokers recover what was lost on the way to them; push and the pulls are paper 001's, reconcile is ours",
        "none",
    ),
    Key(
        "gossip_interval_s",
        SPAN,
        "gossip: between two rounds of a broker; as in paper 001",
        seconds(_GOSSIP.interval_us),
        goes_with=_ANY,
    ),
    Key(
        "gossip_buffer",
        Number(1, 10_000_000, whole=True),
        "gossip: events that a broker keeps for others; as in paper 001",
        _GOSSIP.buffer,
        goes_with=_ANY,
    ),
    Key(
        "gossip_forward",
        SHARE,
        "gossip: chance that a digest is sent on to one more neighbour; paper 001 does not say, this is fitted",
        _GOSSIP.forward_ratio,
        goes_with=_ANY,
    ),
    Key(
        "gossip_source",
        SHARE,
        "combined-pull: rounds that ask towards the publisher; paper 001 does not say, this is fitted",
        _GOSSIP.source_ratio,
        goes_with=("gossip", ("combined-pull",)),
    ),
    Key("gossip_lost_s", SPAN, "gossip: how long a lost event is looked for", seconds(_GOSSIP.lost_us), goes_with=_ANY),
    Key(
        "gossip_adaptive",
        Flag(),
        "gossip: rounds become rarer while they are of no use",
        _GOSSIP.adaptive,
        goes_with=_ANY,
    ),
    Key(
        "gossip_transfer",
        Word(get_args(Transfer)),
        "gossip: how brokers that have no link talk; overlay: along links; direct: by unicast, as in paper 001",
        _GOSSIP.transfer,
        goes_with=_ANY,
    ),
    Key(
        "gossip_transfer_ms",
        DELAY,
        "direct: how long it takes",
        _GOSSIP.transfer_delay_us // 1_000,
        goes_with=("gossip_transfer", ("direct",)),
    ),
    Key(
        "gossip_transfer_loss",
        SHARE,
        "direct: share that is lost",
        _GOSSIP.transfer_loss_ratio,
        goes_with=("gossip_transfer", ("direct",)),
    ),
)
