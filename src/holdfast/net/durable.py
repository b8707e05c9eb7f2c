"""What a durable client does beyond the others: publications are its own until they are stored, deliveries until taken.

A delivery is done with when the application asks its subscription for the next one, and with `flush`, `detach` and
`close`: only then is it acknowledged. So whatever a process had that is killed, in its queues or in its hands, comes
again to the next one under its name, and of what it was done with only that whose acknowledgement was still under way.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from holdfast.model.errors import MisuseError
from holdfast.net.driver import Driver
from holdfast.net.losses import Growing
from holdfast.net.subscription import Delivery, Inbox, WhenFull
from holdfast.protocol.effects import Begin, Consumed, ForgetCall, HandedOut
from holdfast.protocol.hops.settings import HandoverSettings
from holdfast.protocol.node import BrokerMachine, ClientMachine
from holdfast.wire.signals import Hello

T = TypeVar("T", bound="DurableInbox")

NEEDS_STORE = (
    "and a durable client needs that: start it with --hops retransmission --store FILE, "
    "or connect without durable and hops"
)
_PART_S = 0.01  # between two acknowledgements within one message: each costs as much as several events


class DurableInbox(Inbox):
    """A queue that drops nothing: what the application is not done with has a limit of its own."""

    lasting = True  # what it holds would be lost with it

    def __init__(
        self, events_max: int, on_look: Callable[[bool], None], on_first: Callable[["DurableInbox"], None]
    ) -> None:
        super().__init__(events_max, "drop-oldest", lambda inbox: None)
        self.done = 0  # of these, how many the application is done with
        self.noted = 0  # of these, how many came before the last message was handed out
        self._in_hand: Delivery | None = None  # the first that it has taken and is not done with
        self._on_look = on_look
        self._on_first = on_first

    def look(self) -> None:
        """The application is done with all that it has."""
        gone = self.came - len(self._items)
        progressed, self.done, self._in_hand = gone > self.done, gone, None
        self._on_look(progressed)

    @property
    def undone(self) -> Delivery | None:
        """The first delivery that the application is not done with."""
        return self._in_hand or (self._items[0] if self._items else None)

    def put(self, delivery: Delivery) -> None:
        self._note_first()
        super().put(delivery)

    def _note_first(self) -> None:
        if self.came == self.noted:
            self._on_first(self)

    def put_all(self, deliveries: list[Delivery]) -> None:
        if len(self._items) + len(deliveries) > self._cap:
            for each in deliveries:
                self.put(each)
            return
        self._note_first()
        super().put_all(deliveries)

    def take(self, count: int) -> list[Delivery]:
        self.look()
        batch = super().take(count)
        self._in_hand = batch[0] if batch else None
        return batch

    def take_one(self) -> Delivery:
        self.look()
        self._in_hand = super().take_one()
        return self._in_hand

    async def wait(self) -> bool:
        self.look()
        return await super().wait()

    def close(self) -> None:
        super().close()
        self._on_look(True)

    def clear(self) -> None:
        self._items.clear()


class Durable:
    def __init__(
        self, machine: ClientMachine, driver: Driver, inboxes: dict[str, Inbox], settings: HandoverSettings | None
    ) -> None:
        self._machine = machine
        self._driver = driver
        self._inboxes = inboxes
        self._settings = settings  # None where the application does not say what it is done with
        self._answer = asyncio.Event()  # for whoever waits for a broker to have stored something; a new one each time
        self._loop = asyncio.get_running_loop()
        self._token = 0  # up to here the machine knows that the application is done with it,
        self._sent_part = "", 0  # and of the next message
        self._part_s = 0.0  # when that may be said again
        self._later: asyncio.TimerHandle | None = None
        self._begun = self._closed = self._ended = self._looks = False
        self._touched: list[DurableInbox] = []  # by the message that is being handed out
        # What was handed out: how much had come by then to each inbox that got any of it.
        self._out: deque[tuple[int, list[tuple[DurableInbox, int]]]] = deque()
        driver.on_handed_out = self._on_handed_out

    # Publishing ----------------------------------------------------------------------------------

    async def has_window(self) -> None:
        """Wait until one more event can be kept until it is stored."""
        while self._machine.is_full:
            await self._answered()

    @property
    def unacknowledged(self) -> int:
        """Publications that the broker has not stored, as far as we know."""
        return self._machine.unacknowledged

    async def stored(self) -> None:
        """Wait until the broker has stored all that was published."""
        while self._machine.unacknowledged:
            await self._answered()

    async def _answered(self) -> None:
        if self._closed:
            raise MisuseError(f"the client {self._machine.name} is closed")
        await self._answer.wait()

    def on_acknowledged(self) -> None:
        self._answer.set()
        self._answer = asyncio.Event()

    def close(self) -> None:
        """Whoever waits for an answer learns that there will be none."""
        self._closed = True
        self.on_acknowledged()

    # Subscribing ---------------------------------------------------------------------------------

    def new_inbox(self) -> Inbox | None:
        """The queue of a subscription, where the application reads what comes, and so says what it is done with."""
        if self._settings is None:
            return None
        most = self._settings.handed_out_max
        return self.inbox_of(lambda on_look, on_first: DurableInbox(most, on_look, on_first))

    def inbox_of(self, new: Callable[[Callable[[bool], None], Callable[[DurableInbox], None]], T]) -> T:
        """A queue whose owner tells us what the application is done with."""
        return new(self._on_look, self._touched.append)

    def checkpoint(self) -> None:
        """The application is done with what it has taken, and has subscribed to what it wants."""
        for inbox in self._durable():
            inbox.look()
        if not self._ended:
            self._acknowledge(at_once=True)

    def leave(self, for_good: bool) -> None:
        """The connection is about to end; for good, when nobody comes back under this name."""
        self.checkpoint()
        if for_good:
            self.forget(stays=False)

    def forget(self, stays: bool) -> None:
        """The broker is to erase what it keeps for us."""
        self._driver.give(ForgetCall(stays))

    def end(self) -> None:
        """What was not taken is the broker's: it comes again."""
        self._ended = True
        if self._later is not None:
            self._later.cancel()
        for inbox in self._durable():
            inbox.clear()

    def _durable(self) -> list[DurableInbox]:
        return [each for each in self._inboxes.values() if isinstance(each, DurableInbox)]

    def begin(self) -> None:
        """The application has subscribed to all that it wants."""
        if not self._begun and self._inboxes and not self._ended:
            self._begun = True
            self._driver.give(Begin())

    def _on_look(self, progressed: bool) -> None:
        self.begin()
        if progressed:
            self._look_soon()

    def _on_handed_out(self, handed_out: HandedOut) -> None:
        marks = [(each, each.came) for each in self._touched]
        for each, came in marks:
            each.noted = came
        self._touched.clear()
        self._out.append((handed_out.token, marks))
        if not marks:
            self._look_soon()  # nobody wanted it

    def _look_soon(self) -> None:
        """Once for all that happens until the event loop turns."""
        if not self._looks:
            self._looks = True
            self._loop.call_soon(self._acknowledge)

    def _acknowledge(self, at_once: bool = False) -> None:
        self._looks = False
        token = self._token
        while self._out and all(inbox.done >= came or inbox.closed for inbox, came in self._out[0][1]):
            token, _ = self._out.popleft()
        if token == self._token and not at_once and self._was_lately():
            return
        source, seq = self._within_next()
        if not self._ended and (token, source, seq) != (self._token, *self._sent_part):
            self._token, self._sent_part = token, (source, seq)
            self._driver.give(Consumed(token, source, seq))

    def _was_lately(self) -> bool:
        """Whether we have just said how far the application is in a message; then it is said again a little later."""
        now_s = self._loop.time()
        if now_s >= self._part_s:
            self._part_s = now_s + _PART_S
            return False
        if self._later is None:
            self._later = self._loop.call_at(self._part_s, self._acknowledge_later)
        return True

    def _acknowledge_later(self) -> None:
        self._later = None
        self._acknowledge()

    def _within_next(self) -> tuple[str, int]:
        """In the next message: the first publication that the application is not done with, if that is clear."""
        marks = self._out[0][1] if self._out else []
        undone = [inbox.undone for inbox, came in marks if inbox.done < came and not inbox.closed]
        found = [(each.source, each.seq) for each in undone if each is not None and each.via != "multipath"]
        if not found or len(found) < len(undone) or len({source for source, _ in found}) > 1:
            return "", 0
        return min(found)


def needs_other(hello: Hello, broker: BrokerMachine, stores: bool) -> str:
    """Why this broker is not for this client, or the other way round; empty when they go together.

    A client that is not durable would end the subscriptions of a durable one of its name, and nobody would notice.
    """
    if hello.durable and not stores:
        return f"{broker.name} stores no events, {NEEDS_STORE}"
    if hello.durable is False and broker.keeps_for(hello.node):
        instead = "connect with durable=True, or end it with forget()"
        return f"{hello.node} is a durable client of {broker.name}: {instead}"
    return ""


def new_inbox(
    durable: Durable | None,
    queue_max: int,
    when_full: WhenFull,
    on_level: Callable[[Inbox], None],
    on_overflow: Callable[[], Growing],
) -> Inbox:
    """The queue of a subscription."""
    inbox = None if durable is None else durable.new_inbox()
    return Inbox(queue_max, when_full, on_level, on_overflow) if inbox is None else inbox
