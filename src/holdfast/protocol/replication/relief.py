"""A replica beside a broker that cannot keep up, as a neighbour of both sees it: it joins, shares events and leaves.

While it joins, events go there as its protocol has it; when it has everything, it may have any event that it wants.
When it asks to be drained it gets no more events: from then on its tables count for nothing here, and what it still
has goes on until its own last event has come. `states` has what may follow what.
"""

from holdfast.model.replication_messages import ReplicaRequest
from holdfast.protocol.effects import Effect, Send
from holdfast.protocol.replication.settings import ReplicationSettings
from holdfast.protocol.replication.states import RELIEF, ReliefEvent, ReliefState, after
from holdfast.protocol.replication.table_copy import TableCopy


class Relief:
    def __init__(self, replica: str, holder: str, settings: ReplicationSettings, now_us: int) -> None:
        self.replica = replica
        self.holder = holder  # the broker that it relieves, or who has taken that one's place
        self.state = ReliefState.JOINING
        self.reorders = False  # events that it shares are put in order again behind it
        self.copy = TableCopy(settings, now_us)

    @property
    def seniority(self) -> tuple[int, str]:
        """All neighbours agree on who came first."""
        return self.copy.epoch, self.replica

    def on(self, event: ReliefEvent) -> None:
        self.state = after(RELIEF, self.state, event)

    def on_request(self, request: ReplicaRequest, now_us: int) -> None:
        self.on(ReliefEvent.REQUESTED)
        self.reorders = request.use == "reordering"
        self.copy.begin(request, now_us)

    def on_open(self) -> None:
        if self.copy.copying == "ordered" and self.state is ReliefState.JOINING:
            self.on(ReliefEvent.OPENED)

    def next_due_us(self) -> int | None:
        due_us = self.copy.out.next_due_us()
        if not self.state.copies:
            return due_us
        return self.copy.due_us if due_us is None else min(due_us, self.copy.due_us)

    def takes(self, wants: bool) -> bool:
        """Whether it may have an event, which it `wants` if it has told us of a subscription that matches."""
        if self.state is ReliefState.JOINING_OPEN:
            return True  # it sends everything to those whose tables it does not have yet
        joins_early = self.state is ReliefState.JOINING and self.copy.copying in ("basic", "incremental")
        return wants and (self.state is ReliefState.BESIDE or joins_early)

    def what_goes(self, now_us: int) -> list[Effect]:
        return [Send(self.replica, message) for message in self.copy.out.take(now_us)]
