"""Paper 003's study: its model, and claims that follow from its runs and from nothing else."""

from dataclasses import replace
from random import Random

import pytest

from holdfast.books.replication_promises import EventId, incomplete, unordered
from holdfast.model.replication_messages import CopyProtocol, ReplicaUse
from holdfast_papers.replication.as_written import AsWritten, Reading
from holdfast_papers.replication.cells import measure, models
from holdfast_papers.replication.experiment import STUDY
from holdfast_papers.replication.model import Model, ReplicationSetting, zipf
from holdfast_papers.replication.table import ALIKE
from holdfast_papers.study import Runs


def test_an_event_missed_between_two_that_both_got_breaks_completeness() -> None:
    got = {"one": [("p", 1), ("p", 3)], "other": [("p", 1), ("p", 2), ("p", 3)]}
    witness = incomplete(got, [("one", "other")])
    assert witness is not None
    assert str(witness) == "one and p/2: other got it"
    assert incomplete(got, [("one", "other")], left_out=[("p", 2)]) is None  # it was sent to the faulty broker
    got["one"] = [("p", 3)]
    assert incomplete(got, [("one", "other")]) is None  # nothing says that it was subscribed before


def test_an_event_after_a_later_one_of_its_source_breaks_order() -> None:
    got = {"one": [("p", 2), ("q", 1), ("p", 1)]}
    witness = unordered(got)
    assert witness is not None
    assert str(witness) == "one and p/1: came after 2"
    assert unordered(got, left_out=[("p", 1)]) is None
    assert unordered({"one": [("p", 2), ("q", 1)]}) is None


def test_the_most_frequent_value_is_at_the_end_that_was_asked_for() -> None:
    low, high = (zipf(Random(1), 2.0, 1_000, towards) for towards in (False, True))
    assert max(set(low), key=low.count) == 1
    assert max(set(high), key=high.count) == 20
    assert [21 - each for each in low] == high


@pytest.mark.parametrize("neighbours", [1, 3])
def test_messages_are_as_many_as_the_corrected_complexity_says(neighbours: int) -> None:
    found = Model(ReplicationSetting("synchronous", subscriptions=60, neighbours=neighbours)).experiment()
    everybody = neighbours + 1
    assert found.messages["ReplicaRequest"] == everybody
    assert found.messages["Delta"] == everybody + 2 * found.matching  # each goes there and on
    assert found.messages["LastAdvertisement"] == found.messages["CopyDone"] == everybody


def test_neighbours_connect_one_after_the_other_and_the_first_waits_longest() -> None:
    one, four = (Model(ReplicationSetting(subscriptions=40, neighbours=count)).experiment() for count in (1, 4))
    costs = ReplicationSetting().costs
    # From its connection on a neighbour waits for those behind it: two and a half connections of four, on average.
    assert four.resumption_s - one.resumption_s == pytest.approx(1.5 * costs.connect_us / 1e6, abs=0.05)


def test_synchronous_resumes_when_all_is_there_and_incremental_before() -> None:
    setting = ReplicationSetting(subscriptions=300)
    synchronous = Model(replace(setting, copying="synchronous")).experiment()
    incremental = Model(setting).experiment()
    ordered = Model(replace(setting, copying="ordered")).experiment()
    assert synchronous.resumption_s > synchronous.replication_s
    assert incremental.resumption_s < synchronous.resumption_s
    assert (synchronous.ordering, ordered.ordering) == (1, 1)
    assert incremental.ordering < 1
    assert incremental.replication_s >= synchronous.replication_s
    assert synchronous.dropped == incremental.dropped == ordered.dropped == 0


def written(copying: CopyProtocol, use: ReplicaUse, reading: Reading = "sentence") -> list[dict[str, list[EventId]]]:
    return [AsWritten(copying, use, reading, seed).run() for seed in range(1, 9)]


def test_the_printed_failover_protocols_keep_what_table_1_says() -> None:
    basic, synchronous = (written(copying, "failover") for copying in ("basic", "synchronous"))
    assert any(incomplete(each, ALIKE) for each in basic)
    assert not any(map(unordered, basic))
    assert not any(incomplete(each, ALIKE) or unordered(each) for each in synchronous)


def test_reordering_by_its_sentence_lets_an_earlier_event_come_after() -> None:
    assert any(map(unordered, written("synchronous", "reordering", "sentence")))
    assert not any(map(unordered, written("synchronous", "reordering", "footnote")))


def test_the_printed_incremental_protocol_delivers_an_event_for_every_subscription() -> None:
    for deliveries in written("incremental", "failover"):
        assert not incomplete(deliveries, ALIKE)
        assert len(deliveries["c0"]) > len(set(deliveries["c0"]))
        assert len(deliveries["t0"]) == len(set(deliveries["t0"]))


@pytest.mark.slow
def test_claims_and_figures_follow_from_the_runs() -> None:
    runs = {}
    for name, cells in models("quick").items():
        few = [cell for cell in cells if cell.get("subscriptions", 0) <= 1_000 or cell.get("each") == 500]
        runs[name] = Runs([{**cell, **measure(cell)} for cell in few])
    claims = {each.id: each for each in STUDY.claims(runs)}
    assert claims["003-messages"].verdict == "holds"
    assert len(list(STUDY.figures(runs))) == 13
