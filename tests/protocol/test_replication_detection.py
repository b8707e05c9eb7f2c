"""Which silence is a failure: brokers that can be replaced are judged by how regular they were (phi accrual)."""

from random import Random

from holdfast.matching.index import Index
from holdfast.model.messages import (
    Heartbeat,
)
from holdfast.model.replication_messages import (
    CopyDone,
    Neighbours,
    ReplicaRequest,
    Retired,
)
from holdfast.protocol.conditions import ConditionBook
from holdfast.protocol.effects import Effect, Incident, LinkUp, Received, ReplicaWanted, Wake
from holdfast.protocol.parts import BrokerParts
from holdfast.protocol.replication.settings import ReplicationSettings
from holdfast.protocol.settings import ProtocolSettings, Reliability
from holdfast.protocol.stack import new_broker

SECOND_US = 1_000_000


class Watching:
    """Broker b, which hears f's heartbeats at these times and then nothing more."""

    def __init__(self, heard_us: list[int], lease_us: int = 3_500_000) -> None:
        settings = ProtocolSettings(heartbeat_us=SECOND_US, lease_us=lease_us)
        parts = BrokerParts("b", "advertisements", settings, ConditionBook(), Index, 0, Random(1))
        self.broker = new_broker(parts, Reliability(replication=ReplicationSettings()))
        self.broker.handle(LinkUp("f", "broker"), 0)
        self._heard_us = heard_us

    def effects(self, until_us: int) -> list[tuple[int, Effect]]:
        found: list[tuple[int, Effect]] = []
        beat, heard_us = Received("f", Heartbeat(1, ((0, 0), (0, 0)), (0, 0))), list(self._heard_us)
        while (now_us := self.broker.next_due_us()) <= until_us:
            while heard_us and heard_us[0] <= now_us:
                at_us = heard_us.pop(0)
                found += [(at_us, each) for each in self.broker.handle(beat, at_us)]
            found += [(now_us, each) for each in self.broker.handle(Wake(), now_us)]
        return found

    def suspected_us(self, until_us: int = 60 * SECOND_US) -> int | None:
        return next((at for at, each in self.effects(until_us) if each == Incident("suspected", "f")), None)


REGULAR = [each * SECOND_US for each in range(20)]
LOSSY = [each * SECOND_US for each in range(20) if each % 4 != 1]


def test_a_regular_neighbour_is_doubted_sooner_than_one_behind_a_lossy_link() -> None:
    regular, lossy = Watching(REGULAR).suspected_us(), Watching(LOSSY).suspected_us()
    assert regular is not None
    assert lossy is not None
    # A mean of 1.05 s and a deviation of 0.25 s: the mean and 5.6 of these at 10**-8, and a beat until the next look.
    assert 19 * SECOND_US + 2_400_000 <= regular <= 19 * SECOND_US + 3_600_000
    assert lossy > regular


def test_the_lease_does_not_count_for_brokers_that_can_be_replaced() -> None:
    one, other = (Watching(REGULAR, lease_us).suspected_us() for lease_us in (1_500_000, 50 * SECOND_US))
    assert one == other


def test_after_a_silence_that_is_too_long_a_replica_is_asked_for_at_once() -> None:
    found = Watching(REGULAR).effects(60 * SECOND_US)
    at_us = next(at for at, each in found if each == Incident("suspected", "f"))
    wanted = [at for at, each in found if isinstance(each, ReplicaWanted)]
    assert wanted[0] - at_us <= SECOND_US


def test_a_broker_that_was_held_up_itself_judges_nobody_before_it_has_read_on() -> None:
    watching = Watching(REGULAR)
    watching.effects(15 * SECOND_US)
    due_us = watching.broker.next_due_us()
    late = watching.broker.handle(Wake(), due_us + 10 * SECOND_US)  # f's beats are still in its socket
    assert Incident("suspected", "f") not in late


def test_a_client_cannot_ask_for_a_brokers_tables_or_dismiss_a_broker() -> None:
    watching = Watching(REGULAR)
    watching.broker.handle(LinkUp("c", "client"), 0)
    for message in (ReplicaRequest(1, "f", "basic", "failover"), Retired("c"), CopyDone(1, 0), Neighbours(("x",))):
        assert watching.broker.handle(Received("c", message), 1) == [Incident("unexpected_message", "c")]
    assert watching.broker.kind_of("f") == "broker"


def test_nobody_can_stand_for_us_for_a_client_or_for_itself() -> None:
    watching = Watching(REGULAR)
    watching.broker.handle(LinkUp("c", "client"), 0)
    for faulty in ("b", "c", "f"):
        request = ReplicaRequest(1, faulty, "basic", "failover")
        assert watching.broker.handle(Received("f", request), 1) == [Incident("unexpected_message", "f")]
