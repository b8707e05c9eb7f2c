"""Rights in the language of subscriptions: what clients may publish and see, live."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.carriers.connecting import connect
from holdfast.language.parser import parse
from holdfast.model.errors import InputError, TransportError
from holdfast.model.messages import (
    Deliver,
    Delta,
    Detach,
    Heartbeat,
    Publication,
    Publish,
)
from holdfast.model.replication_messages import (
    ReplicaRequest,
)
from holdfast.net.client import Client
from holdfast.net.denials import Denial
from holdfast.net.journal import Journal
from holdfast.net.node import BrokerNode
from holdfast.protocol.recovery.control import Repair, Repaired, encoded, labels
from holdfast.protocol.replication.settings import ReplicationSettings
from holdfast.trust.authority import DevelopmentAuthority
from holdfast.trust.identity import ANONYMOUS, Principal
from holdfast.trust.rights import read_rights, rights_of
from holdfast.trust.settings import TrustSettings
from holdfast.wire.signals import LEVEL, Hello, Welcome
from tests.net.harness import QUICK, Lab, fails, lab, live, take, until, values
from tests.net.raw import RawPeer

RIGHTS = """
[[right]]
who = "desk-*"
publish = "class = 'order' AND desk = $name"
subscribe = "class = 'stock' AND exchange IN ('NYSE', 'XETRA')"
narrow = true

[[right]]
who = ["feed", "group:feeds"]
publish = "TRUE"
subscribe = "class = 'order'"

[[right]]
who = "anonymous"
subscribe = "class = 'news'"
"""


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    authority = DevelopmentAuthority(folder, 30)
    for name in ("feed", "desk-1", "desk-2", "stranger"):
        authority.issue(name)
    authority.issue("other", ["feeds"])
    return folder


class Place:
    """A broker with a rights file, and clients with tokens."""

    def __init__(self, net: Lab, keys: Path, folder: Path) -> None:
        self.net, self.keys, self.file = net, keys, folder / "rights.toml"
        self.lines: list[str] = []
        self.broker: BrokerNode

    async def start(self, text: str = RIGHTS, name: str = "b1", **settings: Any) -> "Place":
        self.file.write_text(text)
        trust = TrustSettings(self.keys / "broker.key", self.keys / "issuer.json", self.file)
        journal = Journal(name, "json", self.lines.append)
        self.broker = await self.net.broker(name, trust=trust, recorder=journal, log=journal.note, **settings)
        return self

    async def client(self, name: str, broker: BrokerNode | None = None, **settings: Any) -> Client:
        token = str(self.keys / f"{name}.token")
        return await self.net.client(broker or self.broker, name=name, token=token, **settings)

    def logged(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in map(json.loads, self.lines) if line["kind"] == kind]


@live
async def test_a_subscription_is_narrowed_to_the_right_and_the_client_is_told(keys: Path, tmp_path: Path) -> None:
    async with lab() as net:
        place = await Place(net, keys, tmp_path).start()
        feed, desk = await place.client("feed"), await place.client("desk-1")
        wanted = desk.subscribe("price < 100")
        await until(desk.denials)
        instead = "class = 'stock' AND exchange IN ('NYSE', 'XETRA') AND price < 100"
        (told,) = desk.denials()
        assert (told.condition, told.instead) == ("price < 100", instead)
        await desk.flush()
        stock = {"class": "stock", "exchange": "NYSE"}
        for n, event in enumerate([{"class": "order"}, {**stock, "exchange": "LSE"}, stock, {"class": "news"}]):
            await feed.publish({**event, "price": n, "n": n})
        assert values([await anext(wanted)]) == [2]
        assert place.broker.counters.incidents["subscription_narrowed"] >= 1
        (line,) = place.logged("subscription_narrowed")[:1]
        assert line["about"] == "desk-1" and "price < 100" in line["text"]


@live
async def test_a_subscription_outside_a_right_that_does_not_narrow_is_refused(keys: Path, tmp_path: Path) -> None:
    async with lab() as net:
        place = await Place(net, keys, tmp_path).start()
        feed, other = await place.client("feed"), await place.client("other")
        for condition in ("TRUE", "class = 'stock'", "class <> 'order'"):
            subscription = feed.subscribe(condition)
            loss = await anext(feed.losses())
            assert "it may subscribe to nothing of this" in loss.reason
            subscription.close()
        wanted = feed.subscribe("class = 'order' AND n > 0")
        await feed.flush()
        await other.publish({"class": "stock", "n": 1})
        await other.publish({"class": "order", "n": 2})
        assert values([await anext(wanted)]) == [2]


@live
async def test_a_publication_outside_the_right_is_refused_with_what_stopped_it(keys: Path, tmp_path: Path) -> None:
    async with lab() as net:
        place = await Place(net, keys, tmp_path).start()
        feed, desk = await place.client("feed"), await place.client("desk-1")
        wanted = feed.subscribe("class = 'order'")
        await feed.flush()
        seqs = [await desk.publish({"class": "order", "desk": name, "n": n}) for n, name in enumerate(DESKS)]
        await desk.flush()
        assert values(await take(wanted, 2)) == [0, 2]
        await until(lambda: sum(each.events for each in desk.denials()) == 2)
        assert desk.denials()[0] == Denial(
            "it may publish class = 'order' AND desk = 'desk-1', but desk = 'desk-1': desk is 'desk-2'",
            seq=seqs[1],
            events=desk.denials()[0].events,
        )
        assert place.broker.counters.incidents["publication_refused"] == 2
        assert "desk is 'desk-2'" in place.logged("publication_refused")[0]["text"]


DESKS = ("desk-1", "desk-2", "desk-1", "feed")


@live
async def test_who_has_no_right_is_refused_and_anonymous_is_a_right_like_any_other(keys: Path, tmp_path: Path) -> None:
    async with lab() as net:
        place = await Place(net, keys, tmp_path).start()
        address = str(place.broker.listening[0])
        stranger = connect(address, name="stranger", token=str(keys / "stranger.token"), settings=QUICK)
        assert "stranger has no right here" in await fails(stranger.__aenter__(), TransportError)
        squatter = connect(address, name="feed", settings=QUICK)
        assert "it does not prove that it is feed" in await fails(squatter.__aenter__(), TransportError)
        feed, nobody = await place.client("feed"), await net.client(place.broker)
        wanted = nobody.subscribe("class = 'news'")
        await nobody.flush()
        await nobody.publish({"class": "news", "n": 0})
        await nobody.flush()
        await until(nobody.denials)
        assert "it may publish nothing" in nobody.denials()[0].reason
        await feed.publish({"class": "news", "n": 1})
        assert values([await anext(wanted)]) == [1]
        place.file.write_text(RIGHTS.replace('who = "anonymous"', 'who = "somebody"'))
        place.broker.read_trust()
        await until(lambda: nobody.broker is None)


@live
async def test_a_right_that_is_taken_away_ends_what_is_under_way(keys: Path, tmp_path: Path) -> None:
    async with lab() as net:
        place = await Place(net, keys, tmp_path).start()
        feed, desk = await place.client("feed"), await place.client("desk-1")
        wanted = desk.subscribe("class = 'stock' AND exchange = 'NYSE'")
        await desk.flush()
        stock = {"class": "stock", "exchange": "NYSE"}
        await feed.publish({**stock, "n": 1})
        assert values([await anext(wanted)]) == [1]
        await desk.detach()  # its session is kept, with all that comes for it
        for n in (2, 3):
            await feed.publish({**stock, "n": n})
        await feed.flush()
        place.file.write_text(RIGHTS.replace("'NYSE', ", ""))
        place.broker.read_trust()
        assert feed.broker == "b1"  # whose rights are as before
        await desk.attach()
        await desk.attached()
        await until(desk.denials)
        await desk.flush()
        await feed.publish({**stock, "n": 4})
        await feed.publish({**stock, "exchange": "XETRA", "n": 5})
        await feed.flush()
        again = desk.subscribe("class = 'stock' AND exchange = 'XETRA'")
        await desk.flush()
        await feed.publish({**stock, "exchange": "XETRA", "n": 6})
        assert values([await anext(again)]) == [6]
        assert wanted.account().delivered == 1


@pytest.mark.parametrize("settings", [{"recovery": True}, {"order": "strict"}, {"recovery": "end-to-end"}])
@live
async def test_recovering_clients_keep_to_their_rights(keys: Path, tmp_path: Path, settings: dict[str, Any]) -> None:
    async with lab() as net:
        place = await Place(net, keys, tmp_path).start()
        feed, desk = await place.client("feed", **settings), await place.client("desk-1", **settings)
        wanted = desk.subscribe("TRUE")
        await until(desk.denials)
        await desk.flush()
        for n in range(100):
            exchange = "NYSE" if n % 2 else "LSE"
            await feed.publish({"class": "stock", "exchange": exchange, "n": n})
        assert values(await take(wanted, 50)) == list(range(1, 100, 2))
        assert not desk.losses()


@live
async def test_nobody_gets_by_a_repair_what_it_may_not_subscribe_to(keys: Path, tmp_path: Path) -> None:
    """Neither by asking for it, nor when its publisher sends it unasked."""
    async with lab() as net:
        place = await Place(net, keys, tmp_path).start()
        feed = (keys / "feed.token").read_text().strip()
        desk = (keys / "desk-1.token").read_text().strip()
        async with RawPeer(place.broker.listening[0]) as sender, RawPeer(place.broker.listening[0]) as reader:
            for peer, name, token in ((sender, "feed", feed), (reader, "desk-1", desk)):
                peer.signal(Hello(name, "client", 1, level=LEVEL, token=token))
                assert isinstance(await peer.heard_signal(), Welcome)
                peer.say(Heartbeat(1, ((0, 0), (0, 0)), kind="client"))
            attributes = labels(Repair(), ("desk-1",))
            reader.say(Delta("subscriptions", 1, tuple(f'"{each}" = TRUE' for each in attributes if len(each) > 3), ()))
            secret = Repaired(7, 1, None, {"class": "stock", "exchange": "LSE"}, b"secret")
            allowed = Repaired(8, 1, None, {"class": "stock", "exchange": "NYSE"}, b"allowed")
            await until(lambda: place.broker.gauges()["filters of a neighbour"][0] == 1)
            repair = Publication("feed", 0, 1, None, attributes, encoded(Repair((secret, allowed))))
            sender.say(Publish(repair))
            while True:
                found = [each for each in await reader.heard() if isinstance(each, Deliver)]
                if found:
                    break
            assert b"allowed" in found[0].publication.payload and b"secret" not in found[0].publication.payload


@pytest.mark.parametrize("mark", ["r", "g", "q", "w", "z", None])
@live
async def test_nobody_publishes_by_a_repair_however_it_is_marked(keys: Path, tmp_path: Path, mark: str | None) -> None:
    async with lab() as net:
        place = await Place(net, keys, tmp_path).start()
        feed, desk = await place.client("feed"), await place.client("desk-1", recovery=True)
        wanted = desk.subscribe("class = 'stock' AND exchange = 'NYSE'")
        await desk.flush()
        stock = {"class": "stock", "exchange": "NYSE"}
        async with RawPeer(place.broker.listening[0]) as peer:
            peer.signal(Hello("anonymous.x", "client", 1, level=LEVEL))  # who may publish nothing
            assert isinstance(await peer.heard_signal(), Welcome)
            attributes = {**labels(Repair(), ("desk-1",)), "~": mark}
            said = {name: value for name, value in attributes.items() if value is not None}
            forged = encoded(Repair((Repaired(7, 1, None, {**stock, "n": -1}, b""),)))
            peer.say(
                Heartbeat(1, ((0, 0), (0, 0)), kind="client"),
                Publish(Publication("anonymous.x", 0, 1, None, said, forged)),
            )
            await until(lambda: place.broker.counters.incidents.get("publication_refused"))
        await feed.publish({**stock, "n": 1})
        assert values([await anext(wanted)]) == [1]


@live
async def test_a_client_does_not_become_a_broker_by_its_heartbeat(keys: Path, tmp_path: Path) -> None:
    async with lab() as net:
        place = await Place(net, keys, tmp_path).start()
        feed, token = await place.client("feed"), (keys / "desk-1.token").read_text().strip()
        async with RawPeer(place.broker.listening[0]) as peer:
            peer.signal(Hello("desk-1", "client", 1, level=LEVEL, token=token))
            assert isinstance(await peer.heard_signal(), Welcome)
            peer.say(Heartbeat(1, ((0, 0), (0, 0)), kind="client"), Detach())
            peer.say(Heartbeat(1, ((0, 0), (0, 0)), kind="broker"), Delta("subscriptions", 1, ("TRUE",), ()))
            await until(lambda: place.broker.counters.incidents.get("subscription_narrowed"))
            assert place.broker._machine.kind_of("desk-1") == "client"
        assert feed.broker == "b1"


@live
async def test_a_client_does_not_become_a_broker_by_standing_in_for_one(keys: Path, tmp_path: Path) -> None:
    """Also when its broker has forgotten it, and knows of no client of that name."""
    async with lab() as net:
        place = await Place(net, keys, tmp_path).start(replication=ReplicationSettings())
        trust = TrustSettings(broker_key=keys / "broker.key")
        peers = {"b1": place.broker.listening[0]}
        other = await net.broker("b2", peers=peers, replication=ReplicationSettings(), trust=trust)
        await place.broker.connected_to("b2")
        async with RawPeer(place.broker.listening[0]) as peer:
            peer.signal(Hello("anonymous.x", "client", 1, level=LEVEL))
            assert isinstance(await peer.heard_signal(), Welcome)
            beat = Heartbeat(1, ((0, 0), (0, 0)), kind="client")
            peer.say(beat, Detach(), ReplicaRequest(2**50, "b2", "basic", "failover"))
            await until(lambda: place.broker.counters.incidents.get("unexpected_message"))
            assert place.broker._machine.kind_of("anonymous.x") is None
            peer.say(beat)
            await until(lambda: place.broker._machine.kind_of("anonymous.x") == "client")
        assert other.neighbours == ("b1",)


@live
async def test_a_durable_client_gets_what_was_stored_for_it_within_its_right(keys: Path, tmp_path: Path) -> None:
    from holdfast.protocol.hops.settings import HopSettings

    async with lab() as net:
        hops, stock = HopSettings("retransmission"), {"class": "stock", "exchange": "NYSE"}
        place = await Place(net, keys, tmp_path).start(hops=hops, store=tmp_path / "store.db")
        feed = await place.client("feed", durable=True)
        desk = await place.client("desk-1", durable=True)
        desk.subscribe("class = 'stock' AND exchange IN ('NYSE', 'XETRA')")
        await desk.flush()
        await desk.close()
        for n in range(3):
            await feed.publish({**stock, "n": n})
            await feed.publish({**stock, "exchange": "XETRA", "n": 10 + n})
        await feed.flush()
        place.file.write_text(RIGHTS.replace("'NYSE', ", ""))
        place.broker.read_trust()
        back = await place.client("desk-1", durable=True)
        wanted = back.subscribe("class = 'stock' AND exchange IN ('NYSE', 'XETRA')")
        assert values(await take(wanted, 3)) == [10, 11, 12]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[rights]]", "'rights' is not known; write [[right]]"),
        ("[right]\nwho = 'a'", "with two brackets"),
        ("[[right]]\nwho = 7", "right 1: who: expected a name"),
        ("[[right]]\nwhom = 'a'\nwho = 'b'", "did you mean"),
        ("[[right]]\nwho = 'a'\npublish = 'a <'", "right 1: publish: line 1, column 4"),
        ("[[right]]\nwho = 'a'\nnarrow = 1", "narrow: expected true or false"),
        ("[[right", "cannot be read"),
        (f"a = {'[' * 5_000}", "cannot be read"),
    ],
)
def test_a_wrong_rights_file_is_refused_with_all_that_is_wrong(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "rights.toml").write_text(text)
    with pytest.raises(InputError) as told:
        read_rights(tmp_path / "rights.toml")
    assert why in str(told.value)


def test_names_stand_for_themselves_and_rights_add_up() -> None:
    file = rights_of(
        {
            "right": [
                {"who": "desk-*", "publish": "desk = $name AND note <> '$name'", "subscribe": "a = 1"},
                {"who": "group:traders", "subscribe": "b = 2"},
                {"who": "*", "publish": "ping = TRUE"},
            ]
        },
        "rights",
    )
    right = file.of(Principal("desk-o'neill", ("traders",)))
    assert right.subscribe == parse("a = 1 OR b = 2")
    assert right.publish == parse("desk = 'desk-o''neill' AND note <> '$name' OR ping = TRUE")
    assert not file.has_any(ANONYMOUS) and not file.of(ANONYMOUS).publish.filters
    assert not file.of(Principal("somebody")).subscribe.filters


def test_a_name_that_reads_like_a_group_is_none() -> None:
    file = rights_of({"right": [{"who": ["group:traders", "group:*"], "publish": "TRUE"}]}, "rights")
    assert file.has_any(Principal("desk", ("traders",)))
    assert not file.has_any(Principal("group:traders")) and not file.has_any(Principal("group:x"))


@live
async def test_those_who_come_and_go_under_many_names_take_no_right_from_those_who_are_there(
    keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.trust.enforcement._CLIENTS_MAX", 5)
    async with lab() as net:
        place = await Place(net, keys, tmp_path).start()
        feed, here, away = [await place.client(name) for name in ("feed", "desk-1", "desk-2")]
        wanted = [each.subscribe("class = 'stock' AND exchange = 'NYSE'") for each in (here, away)]
        for each in (here, away):
            await each.flush()
        await away.detach()  # its session is kept
        for n in range(20):
            async with connect(str(place.broker.listening[0]), name=f"anonymous.{n}", settings=QUICK):
                pass
        await feed.publish({"class": "stock", "exchange": "NYSE", "n": 1})
        await feed.flush()
        await away.attach()
        assert [values([await anext(each)]) for each in wanted] == [[1], [1]]
        assert place.broker._rights is not None and len(place.broker._rights._identities) <= 6


@pytest.mark.parametrize("reliability", [{}, {"recovery": True}], ids=["plain", "recovery"])
@live
async def test_signed_events_pass_the_rights_and_other_reserved_attributes_do_not(
    tmp_path: Path, reliability: dict[str, Any]
) -> None:
    authority = DevelopmentAuthority(tmp_path, 30)
    for name in ("feed", "desk-1"):
        authority.issue(name)
    authority.add_signer("feed")
    async with lab() as net:
        place = await Place(net, tmp_path, tmp_path).start()
        feed = await place.client("feed", sign=str(tmp_path / "feed.sign"), **reliability)
        desk = await place.client("desk-1", verify=str(tmp_path / "signers.json"), **reliability)
        wanted = desk.subscribe("n >= 0")
        await desk.flush()
        stock = {"class": "stock", "exchange": "NYSE"}
        for n, exchange in enumerate(("NYSE", "LSE", "XETRA")):
            await feed.publish({**stock, "exchange": exchange, "n": n})
        assert values(await take(wanted, 2)) == [0, 2]
        assert not feed.denials()
        rights = place.broker._rights
        assert rights is not None
        assert rights.why_not("feed", {"n": 1, "~sig": "x"}) == ""
        assert "do not begin with ~" in rights.why_not("feed", {"n": 1, "~sig": "x", "~": "r"})
