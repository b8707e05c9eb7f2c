"""The home of a group: hands each event to one member, and keeps it until that member is done with it.

Members take turns, and who has as many as it may have is passed over. What goes to a member is numbered; it reports up
to where it has come and up to where it is done. What it does not report in time is handed to it again, and what a
member leaves undone, by saying so or by falling silent, goes to the others before anything else. So each event is done
with by at least one member, and handed to a second one only when the first may never have finished it.
"""

from collections import deque
from collections.abc import Sequence

from holdfast.model.messages import Publication
from holdfast.protocol.effects import Effect, Incident
from holdfast.protocol.groups.messages import Hand, Join, MemberId, Report, Stranger, handed
from holdfast.protocol.groups.settings import HANDED_MAX

WAITING_MAX = 10_000  # events without a member that has room for them: as many as wait for any client
MEMBERS_MAX = 10_000  # of one group: as many clients as a broker lets in
_HAND_BYTES_AIM = 48 * 1024  # of one message: fits a datagram; a larger event goes alone
_EVENT_BYTES = 256  # that an event takes besides its payload, about

Handing = tuple[str, Hand | Stranger]  # what goes to which client


class _Item:
    __slots__ = ("number", "publication")

    def __init__(self, number: int, publication: Publication) -> None:
        self.number = number  # in the order in which events have come to the home
        self.publication = publication


class _Member:
    def __init__(self, join: Join, stream: int, now_us: int) -> None:
        self.id = join.member
        self.window = join.window
        self.stream = stream
        self.heard_us = now_us
        self.sent_us = now_us  # when something was last handed to it, or again
        self.sent = 0  # the number of the last event that was handed to it
        self.received = 0
        self.done = 0
        self.items: deque[_Item] = deque()  # handed to it and not done with: the last ones up to `sent`
        self.is_ready = False  # it has room, and waits for its turn

    @property
    def has_room(self) -> bool:
        return len(self.items) < self.window


class GroupHome:
    def __init__(self, key: str, address: str, lease_us: int, retry_us: int) -> None:
        self.key = key
        self.address = address
        self.members: dict[MemberId, _Member] = {}
        self.done_to = 0  # all events up to this number are done with
        self.came = 0  # the number of the last event that has come
        self.handed = 0  # events to members,
        self.handed_on = 0  # and of these, to another one than the first, or again by a home that was restored
        self.dropped = 0  # and those that found too many waiting
        self.restored_us = 0  # what was published before may have been handed out in an earlier life
        self._lease_us = lease_us
        self._retry_us = retry_us
        self._streams = 0
        self._waiting: deque[_Item] = deque()
        self._done: set[int] = set()  # beyond `done_to`
        self._ready: deque[_Member] = deque()
        self._noted: list[Effect] = []

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def incidents(self) -> list[Effect]:
        """What is worth a row in the trace since the last call."""
        noted, self._noted = self._noted, []
        return noted

    # Members -------------------------------------------------------------------------------------

    def on_join(self, join: Join, now_us: int) -> None:
        """Somebody wants events; it may ask several times."""
        if join.member in self.members:
            self.members[join.member].heard_us = now_us
            return
        if len(self.members) >= MEMBERS_MAX:
            self._noted.append(Incident("group_full", join.member.client))
            return
        self._streams += 1
        member = self.members[join.member] = _Member(join, max(now_us, 1) + self._streams, now_us)
        self._make_ready(member)

    def on_report(self, report: Report, now_us: int) -> list[Handing]:
        member = self.members.get(report.member)
        if member is not None and report.stream > member.stream:  # it has been with another home since
            self._remove(report.member)
            member = None
        if member is None:
            return [] if report.leaves else [(report.member.client, Stranger(self.key, report.member, self.address))]
        member.heard_us = now_us
        if report.stream == member.stream:  # else it is about what it was handed before it has joined again
            for _ in range(max(0, min(report.done, member.sent) - member.done)):
                member.done += 1
                self._finish(member.items.popleft().number)
            member.received = max(member.received, member.done, min(report.received, member.sent))
        if report.leaves:
            self._remove(report.member)
        elif not member.is_ready and member.has_room:
            self._make_ready(member)
        return []

    def on_client_gone(self, client: str) -> None:
        """A client of our own broker is not connected any more."""
        for each in [each for each in self.members if each.client == client]:
            self._remove(each)

    def _make_ready(self, member: _Member) -> None:
        member.is_ready = True
        self._ready.append(member)

    def _remove(self, id_: MemberId) -> None:
        member = self.members.pop(id_)
        if member.is_ready:
            self._ready.remove(member)
        if member.items:
            self._waiting.extendleft(reversed(member.items))
            self.handed_on += len(member.items)
            self._noted.append(Incident("group_handed_on", id_.client, len(member.items), other=self.address))

    # Events --------------------------------------------------------------------------------------

    def on_events(self, publications: Sequence[Publication]) -> None:
        for each in publications:
            self.came += 1
            self._waiting.append(_Item(self.came, each))
        again = sum([each.time_us < self.restored_us for each in publications]) if self.restored_us else 0
        if again:
            self.handed_on += again
            self._noted.append(Incident("group_handed_on", count=again, other=self.address))

    def drop_oldest(self) -> None:
        """Where nobody else keeps events for the group, only so many wait."""
        gone = len(self._waiting) - WAITING_MAX
        for _ in range(gone):
            self._finish(self._waiting.popleft().number)
        if gone > 0:
            self.dropped += gone
            self._noted.append(Incident("group_events_dropped", self.address, gone))

    def _finish(self, number: int) -> None:
        self._done.add(number)
        while self.done_to + 1 in self._done:
            self.done_to += 1
            self._done.remove(self.done_to)

    def hand_out(self, now_us: int) -> list[Handing]:
        """As much as members have room for."""
        firsts: dict[MemberId, int] = {}  # how much each had before
        while self._waiting and self._ready:
            item = self._waiting.popleft()
            if item.publication.expired(now_us):
                source, seq = item.publication.source, item.publication.seq
                self._noted.append(Incident("expired", source=source, first=seq))
                self._finish(item.number)
                continue
            member = self._ready.popleft()
            firsts.setdefault(member.id, member.sent)
            member.items.append(item)
            member.sent += 1
            self.handed += 1
            if member.has_room:
                self._ready.append(member)
            else:
                member.is_ready = False
        handings: list[Handing] = []
        for id_, before in firsts.items():
            handings += self._messages(self.members[id_], before, now_us)
        return handings

    def _messages(self, member: _Member, after: int, now_us: int) -> list[Handing]:
        """What a member has been handed behind this number."""
        member.sent_us = now_us
        skipped = after - member.done
        items = [each for at, each in enumerate(member.items) if at >= skipped]
        found: list[Handing] = []
        while items:
            size, count = 0, 0
            for each in items[:HANDED_MAX]:
                size += len(each.publication.payload) + _EVENT_BYTES
                if count and size > _HAND_BYTES_AIM:
                    break
                count += 1
            events = tuple([handed(each.publication) for each in items[:count]])
            hand = Hand(self.key, member.id, self.address, member.stream, after + 1, events)
            found.append((member.id.client, hand))
            items, after = items[count:], after + count
        return found

    def on_timer(self, now_us: int) -> list[Handing]:
        """Who is silent is no member any more; what somebody has not got is handed to it again."""
        handings: list[Handing] = []
        for id_, member in list(self.members.items()):
            if now_us - member.heard_us > self._lease_us:
                self._remove(id_)
            elif member.received < member.sent and now_us - member.sent_us >= self._retry_us:
                handings += self._messages(member, member.received, now_us)
        return handings
