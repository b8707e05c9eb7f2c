"""Clients of MQTT prove who they are and keep to their rights as all others do."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiomqtt
import jwt
import paho.mqtt.client
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

import holdfast
from holdfast.mqtt.packets import AskedFilter, Auth, Disconnect, PublishPacket, Suback, Subscribe, Will
from holdfast.mqtt.retained import Retained
from holdfast.mqtt.session import MqttSubscription
from holdfast.net.journal import Journal
from holdfast.net.mqtt_place import ClientPlace
from holdfast.net.node import BrokerNode
from holdfast.trust.authority import AUDIENCE, ISSUER, DevelopmentAuthority
from holdfast.trust.settings import TrustSettings
from tests.net.certificates import Authority
from tests.net.harness import Lab, lab, live, until
from tests.net.mqtt_client import MqttClient, mqtt_port

RIGHTS = """
[[right]]
who = "desk"
publish = "topic LIKE 'orders/%' AND desk = $name"
subscribe = "topic LIKE 'stock/%' AND exchange = 'NYSE'"
narrow = true

[[right]]
who = ["feed", "group:feeds"]
publish = "topic LIKE 'stock/%'"
subscribe = "topic = 'orders' OR topic LIKE 'orders/%'"
"""
DESK = [("desk", "desk")]
NYSE, LSE = [("exchange", "NYSE")], [("exchange", "LSE")]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    authority = DevelopmentAuthority(folder, 30)
    for name in ("feed", "desk", "stranger"):
        authority.issue(name)
    authority.issue("other", ["feeds"])
    return folder


class Hall:
    """A broker with a rights file that serves MQTT, and clients with tokens."""

    def __init__(self, keys: Path, file: Path) -> None:
        self.keys, self.file = keys, file
        self.lines: list[str] = []
        self.broker: BrokerNode

    @property
    def port(self) -> int:
        return next(each.port for each in self.broker.listening if each.scheme == "mqtt")

    def token(self, name: str) -> bytes:
        return (self.keys / f"{name}.token").read_bytes().strip()

    def client(self, name: str, **given: Any) -> MqttClient:
        return MqttClient(self.port, name, user="", password=self.token(name.partition(".")[0]), **given)

    def change(self, text: str) -> None:
        self.file.write_text(text)
        self.broker.read_trust()

    def logged(self, kind: str) -> list[str]:
        return [line["text"] for line in map(json.loads, self.lines) if line["kind"] == kind]


@asynccontextmanager
async def hall(keys: Path, folder: Path, rights: str = RIGHTS, **settings: Any) -> AsyncIterator[tuple[Lab, Hall]]:
    async with lab() as net:
        place = Hall(keys, folder / "rights.toml")
        place.file.write_text(rights)
        trust = TrustSettings(keys / "broker.key", keys / "issuer.json", place.file)
        journal = Journal("b1", "json", place.lines.append)
        listen = ("tcp://127.0.0.1:0", "mqtt://127.0.0.1:0")
        place.broker = await net.broker("b1", listen, trust=trust, recorder=journal, log=journal.note, **settings)
        yield net, place


# Who it is ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [3, 4, 5])
@live
async def test_a_token_is_the_password_and_says_how_a_client_may_be_called(
    keys: Path, tmp_path: Path, version: int
) -> None:
    async with hall(keys, tmp_path) as (_, place):
        for name in ("desk", "desk.2"):
            async with place.client(name, version=version) as client:
                assert client.connack.reason == 0
        refused = 0x87 if version == 5 else 5
        for name, password in (("feed", place.token("desk")), ("desk", b"no token"), ("desk", None)):
            async with MqttClient(place.port, name, version, user="u", password=password) as client:
                assert client.connack.reason == refused
                if version == 5 and password == place.token("desk"):
                    assert client.connack.properties == {"reason_string": "its token is for desk, not for feed"}
        async with place.client("stranger", version=version) as client:
            assert client.connack.reason == refused  # it has no right
        assert "mqtt:desk" not in place.broker.neighbours
        assert any("its token is for desk, not for feed" in each for each in place.logged("mqtt_client"))


@live
async def test_a_client_without_an_identifier_gets_one_below_its_own_name(keys: Path, tmp_path: Path) -> None:
    async with (
        hall(keys, tmp_path) as (_, place),
        MqttClient(place.port, "", user="", password=place.token("desk")) as client,
    ):
        assert client.connack.properties["assigned_client_identifier"].startswith("desk.")


@live
async def test_anonymous_is_a_right_like_any_other(keys: Path, tmp_path: Path) -> None:
    nobody = '[[right]]\nwho = "anonymous"\nsubscribe = "topic = \'news\'"\n'
    async with hall(keys, tmp_path, RIGHTS + nobody) as (_, place):
        async with MqttClient(place.port, "desk") as client:
            assert client.connack.reason == 0 and place.broker.neighbours[-1] == "mqtt:anonymous.desk"
            assert (await client.subscribe("stock/#", "news")).reasons == (0x87, 0)
            assert (await client.publish("news", b"", 1)).reason == 0x87  # type: ignore[union-attr]
        place.change(RIGHTS)
        async with MqttClient(place.port, "desk") as client:
            assert client.connack.reason == 0x87


@live
async def test_extended_authentication_renews_a_token_on_a_live_connection(keys: Path, tmp_path: Path) -> None:
    issuer = load_pem_private_key((keys / "issuer.key").read_bytes(), None)

    def lasting(seconds: float) -> bytes:
        until_s = datetime.now(UTC) + timedelta(seconds=seconds)
        claims = {"sub": "desk", "iss": ISSUER, "aud": AUDIENCE, "exp": until_s}
        return jwt.encode(claims, issuer, "EdDSA", headers={"kid": "1"}).encode()  # type: ignore[arg-type]

    async with hall(keys, tmp_path) as (_, place):
        method = {"authentication_method": "JWT"}
        async with MqttClient(place.port, "desk", **method, authentication_data=lasting(3_600)) as client:
            assert (client.connack.reason, client.connack.properties["authentication_method"]) == (0, "JWT")
            client.send(Auth(0x19, {**method, "authentication_data": lasting(1.0)}))
            assert await client.next(Auth) == Auth(0, method)
            # Half a second is left, less than a whole one because `exp` counts in whole seconds.
            ended = await client.next(Disconnect)
            assert (ended.reason, ended.properties["reason_string"]) == (0xA0, "its token has expired")
        async with MqttClient(place.port, "desk", **method, authentication_data=lasting(3_600)) as client:
            client.send(Auth(0x19, {**method, "authentication_data": place.token("feed")}))
            assert (await client.next(Disconnect)).reason == 0x87
        async with MqttClient(place.port, "desk", authentication_method="SCRAM") as client:
            assert client.connack.reason == 0x8C


@live
async def test_certificates_say_who_has_which_right(authority: Authority, tmp_path: Path) -> None:
    file, own = tmp_path / "rights.toml", authority.broker("b1")
    file.write_text(RIGHTS)
    async with lab() as net:
        b1 = await net.broker("b1", "mqtts://127.0.0.1:0", tls=own, trust=TrustSettings(rights=file))
        secure = b1.listening[0].port
        async with MqttClient(secure, "desk", tls=authority.files("desk").for_dialling()) as desk:
            assert (await desk.publish("orders/1", b"", 1, user_property=DESK)).reason == 0  # type: ignore[union-attr]
            assert (await desk.publish("stock/1", b"", 1)).reason == 0x87  # type: ignore[union-attr]
        async with MqttClient(secure, "feed", tls=authority.files("desk").for_dialling()) as other:
            assert other.connack.reason == 0x87
        with pytest.raises((OSError, EOFError)):
            async with MqttClient(secure, "desk", tls=ssl.create_default_context(cafile=authority.certificate)):
                pass


# What it may do ----------------------------------------------------------------------------------


@pytest.mark.parametrize("qos", [0, 1, 2])
@live
async def test_publications_outside_a_right_are_refused_with_what_stopped_them(
    keys: Path, tmp_path: Path, qos: int
) -> None:
    async with hall(keys, tmp_path) as (_, place), place.client("desk") as desk, place.client("feed") as feed:
        assert (await feed.subscribe("orders/#", qos=qos)).reasons == (qos,)
        refused = await desk.publish("orders/1", b"forged", qos, user_property=[("desk", "other")])
        allowed = await desk.publish("orders/1", b"good", qos, user_property=DESK)
        assert (await feed.event()).payload == b"good" and await feed.silent()
        if qos:
            assert refused is not None and allowed is not None and allowed.reason == 0
            assert (refused.reason, refused.properties["reason_string"]) == (0x87, WHY)
        assert place.broker.counters.incidents["publication_refused"] == 1
        assert WHY in place.logged("publication_refused")[0]


WHY = "it may publish desk = 'desk' AND topic LIKE 'orders/%', but desk = 'desk': desk is 'other'"


@pytest.mark.parametrize("version", [4, 5])
@live
async def test_subscriptions_are_narrowed_or_refused_and_the_client_is_told(
    keys: Path, tmp_path: Path, version: int
) -> None:
    async with hall(keys, tmp_path) as (_, place):
        async with place.client("desk", version=version) as desk, place.client("feed") as feed:
            told = await desk.subscribe("stock/#", qos=1)
            assert told.reasons == (1,)
            if version == 5:
                assert "exchange = 'NYSE'" in told.properties["reason_string"]
            await feed.publish("stock/ibm", b"secret", 1, user_property=LSE)
            await feed.publish("stock/ibm", b"seen", 1, user_property=NYSE)
            assert (await desk.event()).payload == b"seen" and await desk.silent()
        async with place.client("feed", version=version) as feed:
            assert (await feed.subscribe("stock/#", "orders/1")).reasons == (0x87 if version == 5 else 0x80, 0)
        incidents = place.broker.counters.incidents
        assert (incidents["subscription_narrowed"], incidents["subscription_refused"]) == (1, 1)


@live
async def test_retained_events_and_wills_do_not_pass_the_rights_by(keys: Path, tmp_path: Path) -> None:
    forged = Will("stock/will", b"forged", 1)
    async with hall(keys, tmp_path) as (net, place), place.client("feed") as feed:
        async with place.client("desk", will=forged) as desk:
            assert desk.connack.reason == 0x87 and "it may publish" in desk.connack.properties["reason_string"]
        await feed.publish("stock/ibm", b"secret", 1, retain=True, user_property=LSE)
        await feed.publish("stock/dec", b"seen", 1, retain=True, user_property=NYSE)
        async with place.client("desk") as desk:
            await desk.publish("stock/ibm", b"forged", 1, retain=True, user_property=NYSE)
            await desk.subscribe("stock/#")
            assert (await desk.event()).payload == b"seen" and await desk.silent()
        await feed.subscribe("orders/#")
        async with place.client("desk", will=Will("orders/w", b"will", properties={"user_property": DESK})) as desk:
            assert desk.connack.reason == 0
        assert (await feed.event()).payload == b"will"
        async with place.client("desk", will=Will("orders/w", b"will", properties={"user_property": DESK})):
            place.change(RIGHTS.replace("'orders/%' AND", "'order/%' AND"))
        await until(lambda: any("the will of mqtt:desk was not published" in e for e in place.logged("mqtt_client")))
        assert await feed.silent()
        native = await net.client(place.broker, name="feed", token=str(keys / "feed.token"))
        assert native.broker == "b1"


@pytest.mark.parametrize("hops", ["basic", "retransmission"])
@live
async def test_a_right_taken_away_ends_the_session_and_what_waits_for_it(keys: Path, tmp_path: Path, hops: str) -> None:
    from holdfast.protocol.hops.settings import HopSettings

    store = tmp_path / "b1.db" if hops == "retransmission" else None
    settings = {"hops": HopSettings(hops), "store": store}  # type: ignore[arg-type]
    lasting = {"clean": False, "session_expiry_interval": 100}
    async with hall(keys, tmp_path, **settings) as (_, place), place.client("feed") as feed:
        async with place.client("desk", **lasting) as desk:
            await desk.subscribe("stock/#", qos=1)
        await until(lambda: hops == "basic" or "mqtt:desk" not in place.broker.neighbours)
        await feed.publish("stock/ibm", b"waits", 1, user_property=NYSE)
        place.change(RIGHTS.replace("NYSE", "LSE"))
        async with place.client("desk", **lasting) as desk:
            assert not desk.connack.session_present
            await desk.subscribe("stock/#", qos=1)
            await feed.publish("stock/ibm", b"no more", 1, user_property=NYSE)
            await feed.publish("stock/ibm", b"instead", 1, user_property=LSE)
            assert (await desk.event()).payload == b"instead"
            place.change(RIGHTS)
            ended = await desk.next(Disconnect)
            assert (ended.reason, ended.properties["reason_string"]) == (0x87, "its rights have changed")
        assert await feed.silent()


@live
async def test_a_session_goes_on_within_the_same_right(keys: Path, tmp_path: Path) -> None:
    lasting = {"clean": False, "session_expiry_interval": 100}
    async with hall(keys, tmp_path) as (_, place), place.client("feed") as feed:
        async with place.client("desk", **lasting) as desk:
            await desk.subscribe("stock/#", qos=1)
        await feed.publish("stock/ibm", b"waits", 1, user_property=NYSE)
        async with place.client("desk", **lasting) as desk:
            assert desk.connack.session_present and (await desk.event()).payload == b"waits"
            (keys / "none.json").write_text((keys / "issuer.json").read_text().replace(ISSUER, "another"))
            original = (keys / "issuer.json").read_text()
            try:
                (keys / "issuer.json").write_text((keys / "none.json").read_text())
                place.broker.read_trust()
            finally:
                (keys / "issuer.json").write_text(original)
            assert (await desk.next(Disconnect)).reason == 0x87  # its issuer is no longer trusted


# Clients that others have written ----------------------------------------------------------------


@live
async def test_paho_and_aiomqtt_come_with_tokens(keys: Path, tmp_path: Path) -> None:
    async with hall(keys, tmp_path) as (_, place):
        about: dict[str, Any] = {"hostname": "127.0.0.1", "port": place.port, "username": "any"}
        version = aiomqtt.ProtocolVersion.V5
        desk = aiomqtt.Client(identifier="desk", password=place.token("desk").decode(), protocol=version, **about)
        feed = aiomqtt.Client(identifier="feed.1", password=place.token("feed").decode(), protocol=version, **about)
        async with desk, feed:
            await desk.subscribe("stock/#", qos=1)
            properties = Properties(PacketTypes.PUBLISH)
            properties.UserProperty = NYSE
            await feed.publish("stock/ibm", b"seen", 1, properties=properties)
            async with asyncio.timeout(20):
                assert (await anext(aiter(desk.messages))).payload == b"seen"
        with pytest.raises(aiomqtt.MqttError, match="Not authorized"):
            async with aiomqtt.Client(identifier="desk", password="none", **about):
                pass
        reasons: list[Any] = []
        paho_client = paho.mqtt.client.Client(
            paho.mqtt.client.CallbackAPIVersion.VERSION2, "desk", protocol=paho.mqtt.client.MQTTv311
        )
        paho_client.on_connect = lambda client, data, flags, reason, properties: reasons.append(str(reason))
        paho_client.username_pw_set("any", place.token("feed").decode())
        paho_client.connect_async("127.0.0.1", place.port)
        paho_client.loop_start()
        try:
            await until(lambda: bool(reasons))
        finally:
            await asyncio.to_thread(paho_client.loop_stop)
        assert reasons[0] == "Not authorized"


def test_a_broker_without_keys_for_tokens_checks_no_password() -> None:
    """As before: user names and passwords are the application's own there."""

    async def run() -> None:
        async with holdfast.Broker(["mqtt://127.0.0.1:0"]) as b1:
            port = int(b1.addresses[0].rpartition(":")[2])
            async with MqttClient(port, "any", user="u", password=b"p") as client:
                assert client.connack.reason == 0
                await client.subscribe("a")
                await client.publish("a", b"x")
                assert isinstance(await client.any(), PublishPacket)

    asyncio.run(run())


@live
async def test_a_subscription_to_many_large_conditions_lets_others_have_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    large = " AND ".join(f"(a{each} = 1 OR b{each} = 2)" for each in range(7))
    asked = tuple(AskedFilter(f"t{each}/#", 0) for each in range(9))
    monkeypatch.setattr("holdfast.net.slices.SLICE_S", 0.0)  # each of them is over its time
    async with (
        holdfast.Broker("mqtt://127.0.0.1:0") as broker,
        MqttClient(mqtt_port(broker), "heavy") as heavy,
    ):
        taken: list[int] = []
        want = ClientPlace.want

        async def watched(self: ClientPlace, wanted: Sequence[MqttSubscription], retained: Retained) -> None:
            taken.append(len(wanted))
            await want(self, wanted, retained)

        monkeypatch.setattr(ClientPlace, "want", watched)
        heavy.send(Subscribe(1, asked, {"user_property": [("$where", large)]}))
        assert (await heavy.next(Suback)).reasons == (0,) * 9
    assert taken == [1] * 9 + [0]  # the event loop turned after each


@live
async def test_a_connection_whose_session_is_taken_over_subscribes_to_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While the conditions of its packet are read others have their turn, and one of them may be its successor."""
    asked = tuple(AskedFilter(f"t{each}/#", 0) for each in range(9))
    monkeypatch.setattr("holdfast.net.slices.SLICE_S", 0.0)
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: problems.append(about))
    async with (
        holdfast.Broker("mqtt://127.0.0.1:0") as broker,
        MqttClient(mqtt_port(broker), "c") as first,
    ):
        reached, go_on = asyncio.Event(), asyncio.Event()
        want, wanted = ClientPlace.want, list[str]()

        async def held(self: ClientPlace, given: Sequence[MqttSubscription], retained: Retained) -> None:
            wanted.extend(each.topic_filter for each in given)
            await want(self, given, retained)
            if not reached.is_set():
                reached.set()
                await go_on.wait()

        monkeypatch.setattr(ClientPlace, "want", held)
        first.send(Subscribe(1, asked, {}))
        await reached.wait()
        async with MqttClient(mqtt_port(broker), "c") as second:
            assert second.connack.reason == 0
            go_on.set()
            assert await second.silent()
    assert wanted == ["t0/#"] and not problems
