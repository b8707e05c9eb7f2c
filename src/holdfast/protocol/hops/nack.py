"""The layer whose links to other brokers repair their own losses (`hops = "nack"`).

Links to clients that take part repair theirs, too (`nack_client`). A crash, a full queue and a link that fails for long
lose what they lose. Recovery from end to end or gossip may stand behind it; where nothing does, those on this side of
a link are told when it was (`tells_outages`).
"""

from collections.abc import Sequence

from holdfast.model.messages import Heartbeat, Message, Outage
from holdfast.protocol.effects import Effect, Gauges, Incident, Input, LinkDown, LinkUp, Received, Wake
from holdfast.protocol.hops.nack_links import NackLinks
from holdfast.protocol.hops.nack_receiver import NackReceiver
from holdfast.protocol.hops.settings import NackSettings
from holdfast.protocol.node import BrokerLayer, BrokerMachine

_WAKE = Wake()


class NackLayer(BrokerLayer[BrokerMachine]):
    def __init__(self, broker: BrokerMachine, settings: NackSettings, tells_outages: bool = False) -> None:
        super().__init__(broker)
        self._links = NackLinks(settings, broker.kind_of, self._given_up)
        self._tells_outages = tells_outages

    def next_due_us(self) -> int:
        return min(self._links.due_us, self.inner.next_due_us())

    def has_settled(self, now_us: int) -> bool:
        return self._links.settled and self.inner.has_settled(now_us)

    def gauges(self) -> Gauges:
        return {**self.inner.gauges(), **self._links.gauges()}

    def receive(self, sender: str, messages: Sequence[Message], now_us: int) -> list[Effect]:
        receive, inner = self._links.receive, self.inner.receive
        if len(messages) == 1:  # nearly always
            return receive(sender, messages[0], now_us, inner)
        return [effect for each in messages for effect in receive(sender, each, now_us, inner)]

    def hears(self, sender: str, heartbeat: Heartbeat, now_us: int) -> bool:
        return self.inner.hears(sender, heartbeat, now_us)

    def handle(self, given: Input, now_us: int) -> list[Effect]:
        if type(given) is Received:
            return self._links.receive(given.sender, given.message, now_us, self.inner.receive)
        if type(given) is Wake:
            effects: list[Effect] = []
            if self.inner.next_due_us() <= now_us:
                effects = self._links.out(self.inner.handle(_WAKE, now_us), now_us)
            return effects + self._links.on_timer(now_us)
        effects = []
        if type(given) is LinkUp or type(given) is LinkDown:
            client = given.kind == "client" if type(given) is LinkUp else False
            effects = self._links.on_link(given, client, now_us)
        return effects + self._links.out(self.inner.handle(given, now_us), now_us)

    def _given_up(self, neighbour: str, receiver: NackReceiver, now_us: int) -> list[Effect]:
        incident = Incident("link_repair_failed", neighbour, receiver.given_up)
        told = self._tells_outages and self._links.agree_with(neighbour)
        if not told or self.inner.kind_of(neighbour) != "broker":  # a client has its flush
            return [incident]
        outage = Outage(self.name, neighbour, max(0, now_us - receiver.lost_since_us))
        return [incident, *self._links.out(self.inner.handle(Received(neighbour, outage), now_us), now_us)]
