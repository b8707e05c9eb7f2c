"""A broker's side of history: whether it keeps any, who asks for it, and as whom it keeps it."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from holdfast.language.subscription import Subscription
from holdfast.model.extras import extras_named
from holdfast.net.address import Address
from holdfast.net.clock import Clock
from holdfast.net.journal import Note
from holdfast.net.memory import joined
from holdfast.net.seat import Seat
from holdfast.net.session import Phase, Session
from holdfast.net.settings import NodeSettings
from holdfast.net.signing import Signing
from holdfast.net.tls import TlsFiles
from holdfast.net.wire import Accept, Wire
from holdfast.protocol.effects import Gauges
from holdfast.protocol.node import BrokerMachine
from holdfast.trust.enforcement import RightsInForce
from holdfast.trust.identity import Principal
from holdfast.wire.signals import AskPast, Past, encode_signal

if TYPE_CHECKING:
    from holdfast.net.history_keeper import HistoryKeeper

_SIGNED = Signing(keeps=True)


class BrokerHistory:
    def __init__(
        self,
        settings: NodeSettings,
        accept: Accept,
        clock: Clock,
        rights: RightsInForce | None,
        machine: BrokerMachine,
        log: Callable[[Note], None],
    ) -> None:
        self.keeps = settings.history is not None
        self._settings = settings
        self._accept = accept
        self._clock = clock
        self._rights = rights
        self._machine = machine
        self._log = log
        self._keeper: HistoryKeeper | None = None
        self._answering: dict[Session, asyncio.Task[None]] = {}

    async def open(self) -> None:
        """An InputError when the history cannot be kept."""
        settings = self._settings
        if settings.history is None:
            return
        with extras_named():
            from holdfast.net.history_keeper import HistoryKeeper  # noqa: PLC0415  # a broker without does not need NumPy

        name = f"history:{settings.name}"

        async def dial(address: Address, near: Accept, tls: TlsFiles | None) -> Wire:
            return joined("history", self._accept, near, Principal(name, is_broker_itself=True))

        seat = Seat(name, dial, settings.protocol, self._clock, settings.hops, when_full="push-back", signing=_SIGNED)
        backlog = partial(self._machine.backlog, name)
        keeper = HistoryKeeper(settings.history, seat, backlog, self._clock, self._report)
        await keeper.open()
        self._keeper = keeper

    def _report(self, text: str) -> None:
        self._log(Note("history", "", text))

    async def close(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            await keeper.close()

    def abandon(self) -> None:
        """As a killed process does."""
        if self._keeper is not None:
            self._keeper.abandon()

    def gauges(self) -> Gauges:
        return {} if self._keeper is None else self._keeper.gauges()

    def on_ask(self, session: Session, ask: AskPast) -> None:
        """One question at a time, and the next one when the client has room for an answer."""
        if session in self._answering:
            return self._tell(session, Past(ask.token, refused="it has asked already, and is not answered yet"))
        self._answering[session] = asyncio.create_task(self._answer(session, ask))

    def on_end(self, session: Session) -> None:
        """Who has asked is gone, and asks again over its next connection."""
        if (answering := self._answering.pop(session, None)) is not None:
            answering.cancel()

    async def _answer(self, session: Session, ask: AskPast) -> None:
        past = await self._found(session, ask)
        if past is None:  # we stop: who gets no answer asks again where it connects next
            return
        self._answering.pop(session, None)  # before the answer leaves, because whoever has it may ask again at once
        self._tell(session, past)

    async def _found(self, session: Session, ask: AskPast) -> Past | None:
        """The answer, when there is room for it; None when there will be none."""
        assert session.link is not None
        client = session.link.name
        await session.link.room()
        if not self.keeps:
            return Past(ask.token, refused=f"{self._settings.name} keeps none; start it with --history FOLDER")
        if self._keeper is None:
            return None
        past = await self._keeper.answer(client, ask, lambda wanted: self._admitted(client, wanted))
        await session.link.room()
        return past

    def _tell(self, session: Session, past: Past) -> None:
        if session.phase is Phase.OPEN and session.link is not None and session.link.wire_writable:
            session.wire.send(encode_signal(past))

    def _admitted(self, client: str, wanted: Subscription) -> Subscription:
        return wanted if self._rights is None else self._rights.admitted(client, wanted)
