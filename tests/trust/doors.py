"""The two ways in which brokers know each other, and an attacker with all that a client may have."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.messages import NodeKind
from holdfast.net.client import Client
from holdfast.net.node import BrokerNode
from holdfast.net.tls import TlsFiles
from holdfast.trust.settings import TrustSettings
from holdfast.wire.signals import Challenge, Hello, Signal, Welcome
from tests.net.certificates import Authority
from tests.net.harness import Lab
from tests.net.raw import RawPeer

KEY = "00112233445566778899aabbccddeeff"
OTHER_KEY = KEY[::-1]


@dataclass(frozen=True)
class Doors:
    """How brokers and clients of a test prove who they are."""

    scheme: str
    folder: Path
    authority: Authority | None

    def broker(self, name: str) -> dict[str, Any]:
        """The settings by which a broker is known."""
        if self.authority is not None:
            return {"tls": self.authority.broker(name)}
        file = self.folder / "broker.key"
        file.write_text(KEY)
        return {"trust": TrustSettings(broker_key=file)}

    def client(self, name: str) -> TlsFiles | None:
        return None if self.authority is None else self.authority.files(name)

    async def pair(self, net: Lab, **settings: Any) -> tuple[BrokerNode, BrokerNode]:
        listen = f"{self.scheme}://127.0.0.1:0"
        b1 = await net.broker("b1", listen, **self.broker("b1"), **settings)
        b2 = await net.broker("b2", listen, peers={"b1": b1.listening[0]}, **self.broker("b2"), **settings)
        await b1.connected_to("b2")
        await b2.connected_to("b1")
        return b1, b2

    async def connected(self, net: Lab, broker: BrokerNode, name: str, **settings: Any) -> Client:
        files = self.client(name)
        return await net.client(broker, name=name, **({} if files is None else vars(files)), **settings)

    def mallory(self, broker: BrokerNode) -> RawPeer:
        """A connection of somebody whom the authority has certified as the client mallory, if there is one."""
        return RawPeer(broker.listening[0], self.client("mallory"))


@pytest.fixture(params=["keys", "tls"])
def doors(request: pytest.FixtureRequest, tmp_path: Path) -> Doors:
    if request.param == "keys":
        return Doors("tcp", tmp_path, None)
    return Doors("tls", tmp_path, request.getfixturevalue("authority"))


async def greeted(peer: RawPeer, name: str, kind: NodeKind, epoch: int = 1, **said: Any) -> Signal:
    """What a broker answers to somebody who says this of itself, and makes up a proof when it is asked for one."""
    hello = Hello(name, kind, epoch, **said)
    peer.signal(hello)
    answer = await peer.heard_signal()
    if isinstance(answer, Challenge):
        peer.signal(Hello(name, kind, epoch, **said, nonce=b"n" * 16, proof=b"p" * 32))
        answer = await peer.heard_signal()
    return answer


@asynccontextmanager
async def epoch_of(doors: Doors, broker: BrokerNode) -> AsyncIterator[int]:
    """The epoch of a broker, which it tells everybody."""
    async with doors.mallory(broker) as peer:
        answer = await greeted(peer, "mallory", "client")
        assert isinstance(answer, Welcome)
        yield answer.epoch
