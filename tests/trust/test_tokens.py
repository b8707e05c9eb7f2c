"""A token says who a client is, as long as it is valid; and `holdfast keys` makes one with all else that is needed."""

import json
import stat
from base64 import urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from holdfast.carriers.connecting import connect
from holdfast.cli import main
from holdfast.model.errors import InputError, PeerError, TransportError
from holdfast.model.messages import Delta, Heartbeat
from holdfast.net.node import BrokerNode
from holdfast.net.tls import TlsFiles
from holdfast.trust.authority import DevelopmentAuthority
from holdfast.trust.identity import Principal
from holdfast.trust.settings import TrustSettings
from holdfast.trust.token import read_token_keys
from holdfast.wire.signals import LEVEL, Hello, Welcome
from tests.net.harness import QUICK, Lab, fails, lab, live, settled, until, values
from tests.net.raw import RawPeer


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    authority = DevelopmentAuthority(folder, 30)
    for name in ("b1", "b2"):
        authority.certify("broker", name, ["127.0.0.1"])
    for name, groups in (("feed", []), ("desk", ["traders"])):
        authority.certify("client", name, (), groups)
        authority.issue(name, groups)
    return folder


def signed(keys: Path, **claims: Any) -> str:
    """A token of the issuer with these claims; with None, without that one."""
    now = datetime.now(UTC)
    usual = {"sub": "desk", "iss": "holdfast keys", "aud": "holdfast", "exp": now + timedelta(hours=1)}
    given = {name: value for name, value in {**usual, **claims}.items() if value is not None}
    return jwt.encode(given, load_pem_private_key((keys / "issuer.key").read_bytes(), None), "EdDSA")  # type: ignore[arg-type]


async def broker_with_tokens(net: Lab, keys: Path, name: str = "b1", **settings: Any) -> BrokerNode:
    trust = TrustSettings(broker_key=keys / "broker.key", token_keys=keys / "issuer.json")
    return await net.broker(name, trust=trust, **settings)


@live
async def test_a_client_with_a_token_is_who_the_token_says(keys: Path) -> None:
    async with lab() as net:
        broker = await broker_with_tokens(net, keys)
        publisher = await net.client(broker, name="feed", token=str(keys / "feed.token"))
        subscriber = await net.client(broker, token=str(keys / "desk.token"))
        assert subscriber.name.startswith("desk.")
        wanted = subscriber.subscribe("n = 1")
        await settled(subscriber, publisher)
        await publisher.publish({"n": 1})
        assert values([await anext(wanted)]) == [1]


@live
async def test_who_has_no_token_or_that_of_another_is_refused(keys: Path) -> None:
    async with lab() as net:
        broker = await broker_with_tokens(net, keys)
        address = str(broker.listening[0])
        for given, why in (
            ({}, "it has no token"),
            ({"name": "desk"}, "it has no token"),
            ({"name": "feed", "token": str(keys / "desk.token")}, "its token is for desk, not for feed"),
            ({"name": "desk-2", "token": str(keys / "desk.token")}, "its token is for desk, not for desk-2"),
        ):
            client = connect(address, settings=QUICK, **given)  # type: ignore[arg-type]
            assert why in await fails(client.__aenter__(), TransportError)


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": datetime.now(UTC) - timedelta(minutes=1)}, "expired"),
        ({"exp": None}, "exp"),
        ({"sub": None}, "sub"),
        ({"sub": ""}, "`sub` is not the name"),
        ({"sub": "client-1"}, "`sub` is not the name"),
        ({"aud": "another service"}, "Audience"),
        ({"iss": "somebody else"}, "issuer"),
        ({"nbf": datetime.now(UTC) + timedelta(hours=1)}, "not yet valid"),
        ({"groups": "traders"}, "`groups` is not a list"),
    ],
)
def test_a_token_that_is_not_valid_is_refused_with_the_reason(keys: Path, claims: dict[str, Any], why: str) -> None:
    with pytest.raises(PeerError, match=why):
        read_token_keys(keys / "issuer.json").identity_untrusted(signed(keys, **claims))


def test_a_token_does_not_choose_its_own_algorithm(keys: Path) -> None:
    """Neither none at all, nor the public key of the issuer as the secret of a MAC."""
    checked = read_token_keys(keys / "issuer.json")
    claims = {"sub": "desk", "iss": "holdfast keys", "aud": "holdfast", "exp": datetime.now(UTC) + timedelta(hours=1)}
    public = json.loads((keys / "issuer.json").read_text())["keys"][0]["x"]
    for forged in (jwt.encode(claims, None, "none"), jwt.encode(claims, public.ljust(32), "HS256")):  # type: ignore[arg-type]
        with pytest.raises(PeerError, match="no known key has signed it"):
            checked.identity_untrusted(forged)
    for junk in ("", "a.b.c", "é.è.ê", "." * 100, "\ud800.a.b", f"{b64(b'[' * 9_999)}.a.b"):
        with pytest.raises(PeerError):
            checked.identity_untrusted(junk)


def b64(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


@pytest.mark.parametrize("expires", [b"1e999", b"NaN", b"[7]", b"true", b"9" * 5_000])
def test_a_token_whose_end_is_no_time_is_refused(keys: Path, expires: bytes) -> None:
    with pytest.raises(PeerError, match="its token is not valid"):
        read_token_keys(keys / "issuer.json").identity_untrusted(until_then(keys, expires))


def test_a_token_may_have_its_end_in_any_future(keys: Path) -> None:
    found = read_token_keys(keys / "issuer.json").identity_untrusted(until_then(keys, b"9" * 400))
    assert found.expires_s is not None and found.expires_s > 1e15


def until_then(keys: Path, expires: bytes) -> str:
    """A token with these bytes as its end, which no library would write."""
    claims = b'{"sub":"desk","iss":"holdfast keys","aud":"holdfast","exp":' + expires + b"}"
    text = ".".join(map(b64, (b'{"alg":"EdDSA","kid":"1"}', claims)))
    issuer: Any = load_pem_private_key((keys / "issuer.key").read_bytes(), None)
    return f"{text}.{b64(issuer.sign(text.encode()))}"


def test_groups_come_with_the_token(keys: Path) -> None:
    found = read_token_keys(keys / "issuer.json").identity_untrusted((keys / "desk.token").read_text().strip())
    assert found == Principal("desk", ("traders",), found.expires_s)


@pytest.mark.parametrize(
    "text", ["", "[" * 50_000, "{}", '{"keys": []}', '{"keys": [{"kty": "XYZ"}]}', '{"keys": [7]}', "[]"]
)
def test_a_file_that_holds_no_keys_is_an_input_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "keys.json").write_text(text)
    with pytest.raises(InputError, match="token keys"):
        read_token_keys(tmp_path / "keys.json")


@live
async def test_a_connection_ends_with_its_token_and_goes_on_with_a_new_one(
    keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = datetime.now(UTC).timestamp()
    file = tmp_path / "desk.token"
    file.write_text(signed(keys, exp=now_s + 3_600))
    async with lab() as net:
        broker = await broker_with_tokens(net, keys)
        client = await net.client(broker, name="desk", token=str(file))
        session = broker._sessions["desk"]
        assert session.identity.expires_s == pytest.approx(now_s + 3_600, abs=1)
        wanted = client.subscribe("n = 1")
        await client.flush()
        file.write_text(signed(keys, exp=now_s + 7_200))
        monkeypatch.setattr("holdfast.net.session.time", lambda: now_s + 3_601)
        session._check_expiry()
        await session.ended
        await until(lambda: client.broker == "b1")
        assert client.connections == 1  # the same session
        await client.publish({"n": 1})
        assert values([await anext(wanted)]) == [1]


@live
async def test_who_does_not_read_is_not_connected_for_longer_than_its_token(
    keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.net.session._LINGER_S", 0.05)
    async with lab() as net:
        broker = await broker_with_tokens(net, keys)
        publisher = await net.client(broker, name="feed", token=str(keys / "feed.token"))
        async with RawPeer(broker.listening[0]) as peer:
            peer.signal(Hello("desk", "client", 1, level=LEVEL, token=(keys / "desk.token").read_text().strip()))
            assert isinstance(await peer.heard_signal(), Welcome)
            peer.say(Heartbeat(1, ((0, 0), (0, 0)), kind="client"), Delta("subscriptions", 1, ("TRUE",), ()))
            session = broker._sessions["desk"]
            while session.link is None or session.link.wire_writable:  # until nothing more fits
                await publisher.publish({"n": 1}, bytes(100_000))
            monkeypatch.setattr("holdfast.net.session.time", lambda: 1e12)
            session._check_expiry()
            await session.ended
            assert "desk" not in broker.neighbours


@live
async def test_a_client_whose_issuer_is_no_longer_trusted_is_sent_away(keys: Path, tmp_path: Path) -> None:
    file = tmp_path / "issuer.json"
    file.write_text((keys / "issuer.json").read_text())
    async with lab() as net:
        broker = await net.broker("b1", trust=TrustSettings(token_keys=file))
        client = await net.client(broker, name="desk", token=str(keys / "desk.token"))
        other = DevelopmentAuthority(tmp_path / "other", 1)
        file.write_text((tmp_path / "other" / "issuer.json").read_text())
        assert other.made
        broker.read_trust()
        await until(lambda: client.broker is None and "desk" not in broker.neighbours)
        file.write_text("nonsense")
        with pytest.raises(InputError):
            broker.read_trust()


@live
async def test_the_certificates_of_keys_serve_a_network(keys: Path) -> None:
    def files(name: str) -> TlsFiles:
        return TlsFiles(str(keys / f"{name}.pem"), str(keys / f"{name}.key"), str(keys / "ca.pem"))

    async with lab() as net:
        listen = "tls://127.0.0.1:0"
        b1 = await net.broker("b1", listen, tls=files("b1"))
        b2 = await net.broker("b2", listen, tls=files("b2"), peers={"b1": b1.listening[0]})
        await b2.connected_to("b1")
        publisher, subscriber = await net.client(b1, **vars(files("feed"))), await net.client(b2, **vars(files("desk")))
        assert b2._sessions[subscriber.name].identity == Principal("desk", ("traders",))
        wanted = subscriber.subscribe("n = 1")
        await settled(subscriber, publisher)
        await publisher.publish({"n": 1})
        assert values([await anext(wanted)]) == [1]
        as_broker = connect(str(b1.listening[0]), settings=QUICK, **vars(files("b2")))
        assert "its certificate is for the broker b2" in await fails(as_broker.__aenter__(), TransportError)


def verb(*words: str) -> object:
    """The exit code of `holdfast keys`."""
    with pytest.raises(SystemExit) as end:
        main(["keys", *words])
    return end.value.code


def test_keys_makes_everything_once_and_keeps_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "made"
    assert verb(str(folder), "--broker", "b1", "--client", "desk:traders", "--json") == 0
    made = {Path(each).name for each in json.loads(capsys.readouterr().out)["made"]}
    assert made == {
        *("ca.pem", "ca.key", "broker.key", "issuer.key", "issuer.json"),
        *("b1.pem", "b1.key", "desk.pem", "desk.key", "desk.token"),
    }
    private = [each for each in made if each.endswith((".key", ".token"))]
    assert {stat.S_IMODE((folder / each).stat().st_mode) for each in private} == {0o600}
    before = (folder / "ca.pem").read_bytes()
    assert verb(str(folder), "--broker", "b1", "--client", "feed") == 0
    assert (folder / "ca.pem").read_bytes() == before
    assert [Path(each).name for each in capsys.readouterr().out.split()] == ["feed.key", "feed.pem", "feed.token"]
    assert verb(str(folder), "--broker", "b1") == 0
    assert capsys.readouterr().err == f"{folder}: everything that was asked for is there already\n"


@pytest.mark.parametrize("words", [["--broker", "a/b"], ["--client", "a b"], ["--broker", "x", "--client", "x"]])
def test_keys_refuses_names_that_no_node_and_no_file_can_have(words: list[str], tmp_path: Path) -> None:
    assert verb(str(tmp_path / "keys"), *words) == 2
