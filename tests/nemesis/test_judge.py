"""The judge of the nemesis convicts every journal that was tampered with, and nobody where nobody can tell."""

from pathlib import Path

import pytest

from holdfast.nemesis.judge.matching import CannotJudge, matches
from tests.nemesis.journals import CONDITION, Journals, S, got, line, lost


@pytest.fixture
def journals() -> Journals:
    return Journals()


# Convicted ---------------------------------------------------------------------------------------


def test_a_run_in_which_all_went_well_is_not_convicted(journals: Journals, tmp_path: Path) -> None:
    found = journals.judged(tmp_path)
    assert (found.events, found.owed, found.delivered, found.broken) == (20, 18, 18, [])


def test_one_delivery_that_is_gone_is_a_loss_that_nobody_named(journals: Journals, tmp_path: Path) -> None:
    journals.drop(9)
    found = journals.judged(tmp_path)
    assert (found.unnamed, found.broken) == (1, ["1 events were lost, and nobody was told"])
    assert found.shown[0]["event"] == "p/0/9"


def test_all_deliveries_gone_are_losses_that_nobody_named(journals: Journals, tmp_path: Path) -> None:
    journals.drop(*range(1, 21))
    found = journals.judged(tmp_path)
    assert (found.owed, found.delivered, found.unnamed, len(found.broken)) == (18, 0, 18, 1)


def test_a_delivery_that_comes_twice_is_convicted(journals: Journals, tmp_path: Path) -> None:
    journals.add(got(9, 40))
    found = journals.judged(tmp_path)
    assert (found.twice, found.broken) == (1, ["1 events were delivered twice"])


def test_a_delivery_that_comes_twice_is_counted_where_once_is_not_promised(journals: Journals, tmp_path: Path) -> None:
    journals.add(got(9, 40))
    journals.drop(7)
    found = journals.judged(tmp_path, once=False)
    assert (found.twice, found.again, found.broken) == (0, 1, ["1 events were lost, and nobody was told"])


def test_two_deliveries_that_change_places_are_convicted_where_order_is_promised(
    journals: Journals, tmp_path: Path
) -> None:
    first, second = journals.deliveries[4:6]
    first["id"], second["id"], first["print"], second["print"] = (
        second["id"],
        first["id"],
        second["print"],
        first["print"],
    )
    found = journals.judged(tmp_path)
    assert found.disordered == 1
    assert found.broken[0].startswith("1 events were delivered after a later one")


def test_order_that_is_not_promised_is_counted_and_convicts_nobody(journals: Journals, tmp_path: Path) -> None:
    journals.drop(9)
    journals.add(got(9, 40))
    found = journals.judged(tmp_path, in_order=False)
    assert (found.disordered, found.broken) == (1, [])


def test_a_second_copy_is_not_out_of_order_and_a_first_one_is(journals: Journals, tmp_path: Path) -> None:
    journals.add(got(9, 40))
    journals.drop(7)
    journals.add(got(7, 41))
    found = journals.judged(tmp_path, once=False)
    assert (found.again, found.disordered) == (1, 1)
    assert found.broken == ["1 events were delivered after a later one of their publisher"]


def test_an_event_that_was_never_published_is_foreign(journals: Journals, tmp_path: Path) -> None:
    journals.add(got(99, 40))
    assert journals.judged(tmp_path).foreign == 1


def test_an_event_that_the_condition_does_not_match_is_foreign(journals: Journals, tmp_path: Path) -> None:
    journals.add(got(1, 40))
    found = journals.judged(tmp_path)
    assert (found.foreign, found.broken) == (1, ["1 deliveries were of no event that their subscription wants"])


def test_an_event_whose_attributes_were_altered_is_foreign_and_still_owed(journals: Journals, tmp_path: Path) -> None:
    journals.deliveries[3]["print"] += 1
    found = journals.judged(tmp_path)
    assert (found.foreign, found.unnamed) == (1, 1)


def test_a_delivery_after_its_subscription_has_ended_long_ago_is_foreign(journals: Journals, tmp_path: Path) -> None:
    journals.subscriber.insert(-1, line("unsub", 20, sub="a"))
    found = journals.judged(tmp_path)  # events 12 to 20 were published after that
    assert found.foreign == 9


def test_a_delivery_before_its_publication_is_convicted(journals: Journals, tmp_path: Path) -> None:
    journals.deliveries[3]["t"] = 9 * S
    found = journals.judged(tmp_path)
    assert (found.early, found.broken) == (1, ["1 events were delivered before they were published"])


def test_a_durable_subscriber_is_owed_what_was_published_while_it_was_away(journals: Journals, tmp_path: Path) -> None:
    second = [line("begin", 40, node="s", life=1), line("sub", 40, sub="a", condition=CONDITION), line("end", 100)]
    journals.others["client-s-1"] = second
    journals.drop(12, 13)
    journals.subscriber[-1] = line("end", 30)
    found = journals.judged(tmp_path, stores=True)
    assert (found.owed, found.unnamed) == (18, 2)


def test_what_a_durable_subscriber_acknowledged_before_it_left_does_not_come_again(
    journals: Journals, tmp_path: Path
) -> None:
    second = [
        line("begin", 40, node="s", life=1),
        line("sub", 40, sub="a", condition=CONDITION),
        got(5, 41),
        line("end", 100),
    ]
    journals.others["client-s-1"] = second
    journals.subscriber[-1] = line("end", 30)
    assert journals.judged(tmp_path, stores=True).twice == 1


# Named -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("named", "by"),
    [
        (lost(30, source="p", first=1009, last=1009), "by number"),
        (lost(30, since_us=17 * S, until_us=20 * S), "by time"),
        (lost(30, since_us=17 * S, until_us=20 * S, events=1), "by time"),
        (line("account", 99, sub="a", missing=[["p", 1008, 1010]]), "still looked for"),
    ],
)
def test_a_loss_that_the_subscriber_was_told_of_is_named(
    journals: Journals, tmp_path: Path, named: dict[str, object], by: str
) -> None:
    journals.drop(9)
    journals.add(named)
    found = journals.judged(tmp_path)
    assert (dict(found.named), found.unnamed, found.broken) == ({by: 1}, 0, [])


@pytest.mark.parametrize(
    "named",
    [
        lost(30, source="q", first=1009, last=1009),
        lost(30, source="p", first=1010, last=1012),
        lost(30, since_us=30 * S, until_us=31 * S),
    ],
)
def test_a_loss_of_something_else_names_nothing(journals: Journals, tmp_path: Path, named: dict[str, object]) -> None:
    journals.drop(9)
    journals.add(named)
    assert journals.judged(tmp_path).unnamed == 1


def test_an_entry_for_two_events_names_two_of_three(journals: Journals, tmp_path: Path) -> None:
    journals.drop(9, 10, 11)
    journals.add(lost(30, since_us=17 * S, until_us=22 * S, events=2))
    found = journals.judged(tmp_path)
    assert (found.named["by time"], found.unnamed) == (2, 1)


def test_what_the_publisher_was_told_of_is_named(journals: Journals, tmp_path: Path) -> None:
    journals.drop(9)
    journals.publisher.insert(-1, line("unflushed", 40, first=9, last=9, text="the session is lost"))
    assert journals.judged(tmp_path).named["to the publisher"] == 1


def test_what_a_broker_reported_names_a_loss_in_modes_where_clients_do_not_hear_of_all(
    journals: Journals, tmp_path: Path
) -> None:
    journals.drop(9)
    journals.others["broker-b1-0"] = [line("begin", 0), line("incident", 18.5, what="dropped", count=1)]
    assert journals.judged(tmp_path, by_incident=True).named["by an incident"] == 1


def test_what_a_broker_reported_names_nothing_in_other_modes(journals: Journals, tmp_path: Path) -> None:
    journals.drop(9)
    journals.others["broker-b1-0"] = [line("begin", 0), line("incident", 18.5, what="dropped", count=1)]
    assert journals.judged(tmp_path).unnamed == 1


@pytest.mark.parametrize(
    ("target", "reported_s", "keeps", "unnamed"),
    [
        ("b1-b2", 24.5, True, 0),  # it waited for the neighbour, and was lost with the broker where it waited
        ("b1-b2", 24.5, False, 1),  # nobody keeps anything: it was lost when the link was cut
        ("b1-b2", 29.0, True, 1),  # the neighbour had been back for long
        ("s", 24.5, True, 1),  # nobody replaces a client
    ],
)
def test_what_was_reported_when_a_cut_ended_names_what_was_kept_during_it(
    journals: Journals, tmp_path: Path, target: str, reported_s: float, keeps: bool, unnamed: int
) -> None:
    journals.drop(9)
    journals.nemesis += [line("strike", 17, fault=0, kind="cut", target=target), line("over", 24, fault=0)]
    journals.others["broker-b1-0"] = [line("begin", 0), line("incident", reported_s, what="replaced_by", count=1)]
    assert journals.judged(tmp_path, by_incident=True, keeps=keeps).unnamed == unnamed


# Where nobody can tell ---------------------------------------------------------------------------


def test_what_a_killed_publisher_did_not_flush_is_not_owed(journals: Journals, tmp_path: Path) -> None:
    journals.drop(20)
    journals.publisher = [each for each in journals.publisher if each.get("upto") != 20 and each["k"] != "end"]
    journals.nemesis.append(line("killed", 29.5, node="p", life=0))
    found = journals.judged(tmp_path)
    assert (found.owed, found.broken) == (17, [])


def test_what_a_killed_publisher_did_flush_is_owed(journals: Journals, tmp_path: Path) -> None:
    journals.drop(20)
    journals.publisher.pop()
    journals.nemesis.append(line("killed", 29.5, node="p", life=0))
    assert journals.judged(tmp_path).unnamed == 1


def test_events_around_a_new_subscription_are_not_owed(journals: Journals, tmp_path: Path) -> None:
    journals.subscriber[2]["t"] = 15 * S  # known then, and everywhere two seconds later: event 8 is the first
    journals.drop(*range(3, 8))
    found = journals.judged(tmp_path)
    assert (found.owed, found.broken) == (13, [])


def killed_without_event_5(journals: Journals, *lines: dict[str, object]) -> None:
    """Event 5 was published at 14 s and did not come; the subscriber is killed at 35 s."""
    journals.drop(5)
    journals.subscriber = [*[each for each in journals.subscriber if each["t"] < 35 * S], *lines]
    journals.nemesis.append(line("killed", 35, node="s", life=0))


def test_a_killed_subscriber_that_had_the_time_to_name_a_loss_is_convicted(journals: Journals, tmp_path: Path) -> None:
    killed_without_event_5(journals)
    found = journals.judged(tmp_path)
    assert (found.unnamed, found.undecided) == (1, 0)


@pytest.mark.parametrize(("back_s", "unnamed"), [(None, 0), (24, 1)])
def test_a_subscriber_that_is_killed_while_it_is_away_had_yet_to_name_its_absence(
    journals: Journals, tmp_path: Path, back_s: float | None, unnamed: int
) -> None:
    states = [line("state", 20, state="disconnected")]
    states += [] if back_s is None else [line("state", back_s, state="reconnected")]
    killed_without_event_5(journals, *states)
    found = journals.judged(tmp_path)
    assert (found.unnamed, found.undecided) == (unnamed, 1 - unnamed)


def test_an_event_that_reached_its_broker_late_could_not_be_looked_for_before(
    journals: Journals, tmp_path: Path
) -> None:
    killed_without_event_5(journals)
    journals.publisher = [each for each in journals.publisher if each["k"] != "flushed" or each["t"] > 25 * S]
    found = journals.judged(tmp_path)  # flushed at 25.25 s, with all others up to then
    assert (found.unnamed, found.undecided) == (0, 1)


def test_what_a_publisher_had_not_flushed_is_owed_if_it_was_killed_after_it_had_left(
    journals: Journals, tmp_path: Path
) -> None:
    journals.publisher = [each for each in journals.publisher if each["k"] != "flushed"]
    journals.drop(9)
    journals.nemesis.append(line("killed", 101, node="p", life=0))
    assert journals.judged(tmp_path).unnamed == 1


def test_what_a_publisher_had_not_flushed_is_not_owed_if_it_did_not_leave_in_time(
    journals: Journals, tmp_path: Path
) -> None:
    journals.publisher = [each for each in journals.publisher if each["k"] not in ("flushed", "end")]
    journals.drop(9)
    journals.nemesis.append(line("killed", 101, node="p", life=0))
    assert journals.judged(tmp_path).unnamed == 0


def test_events_shortly_before_a_subscriber_is_killed_are_not_owed(journals: Journals, tmp_path: Path) -> None:
    journals.nemesis.append(line("killed", 20.5, node="s", life=0))
    journals.subscriber = [each for each in journals.subscriber if each["t"] < 18 * S]
    found = journals.judged(tmp_path)  # it had events 3 to 8, which left it by 17 s
    assert (found.owed, found.delivered, found.broken) == (7, 6, [])
    assert found.undecided == 1  # event 9 had 2.5 s to arrive, and none to be looked for


def test_a_fault_moves_the_time_from_which_a_new_subscription_is_owed_anything(
    journals: Journals, tmp_path: Path
) -> None:
    journals.nemesis = [
        line("strike", 1, fault=0, kind="cut", target="b1-b2"),
        line("over", 12, fault=0),
    ]
    found = journals.judged(tmp_path)  # 12 s, two for the fault and two for the subscription: event 7 is the first
    assert (found.owed, found.extra) == (14, 4)


def test_what_a_killed_durable_subscriber_was_about_to_acknowledge_may_come_again(
    journals: Journals, tmp_path: Path
) -> None:
    second = [
        line("begin", 40, node="s", life=1),
        line("sub", 40, sub="a", condition=CONDITION),
        got(20, 41),
        line("end", 100),
    ]
    journals.others["client-s-1"] = second
    journals.subscriber.pop()
    journals.nemesis.append(line("killed", 29.5, node="s", life=0))
    found = journals.judged(tmp_path, stores=True)
    assert (found.again, found.twice, found.broken) == (1, 0, [])


def test_a_line_that_a_kill_has_cut_short_is_left_out(journals: Journals, tmp_path: Path) -> None:
    journals.judged(tmp_path)
    path = tmp_path / "journals" / "client-s-0.jsonl"
    path.write_bytes(path.read_bytes() + b'{"k": "got", "t": 12')
    assert [each["k"] for each in _lines(path)][-1] == "end"


def _lines(path: Path) -> list[dict[str, object]]:
    from holdfast.nemesis.journal import lines_of

    return list(lines_of(path))


# Matching ----------------------------------------------------------------------------------------


def test_duckdb_reads_conditions_as_they_are() -> None:
    events = {
        "a": {"order": 7, "home.team": "Yankees", "at": {"$timestamp": "2026-01-31T09:30:00+00:00"}},
        "b": {"order": 8.5, "home.team": "Mets"},
        "c": {},
    }
    conditions = (
        "order = 7",
        "home.team LIKE 'Yan%' OR order > 8",
        "at >= TIMESTAMP '2026-01-31 09:00:00'",
        "nowhere IS NULL",
        "nowhere LIKE 'x%'",
        "nowhere > 3",
    )
    found = matches(events, conditions)
    assert [sorted(found[each]) for each in conditions] == [["a"], ["a", "b"], ["a"], ["a", "b", "c"], [], []]


def test_duckdb_works_expressions_out() -> None:
    events = {
        "a": {"order": 7, "price": 10.5, "s": "IBM", "at": {"$timestamp": "2026-01-31T09:30:00+00:00"}},
        "b": {"order": 400, "price": 1.0, "s": "a/b"},
    }
    expected = {
        "order * price > 100": ["b"],
        "LOWER(s) = 'ibm' AND LENGTH(s) = 3": ["a"],
        "price / 2.5 > 1 OR s = 'x/y'": ["a"],
        "price * 0.1 + 0.2 = 0.30000000000000004": ["b"],  # in doubles; decimals would make it 0.3
        "TIMESTAMPDIFF(HOUR, TIMESTAMP '2026-01-31', at) = 9": ["a"],
        "COALESCE(nowhere, order) = 7": ["a"],
    }
    found = matches(events, expected)
    assert {each: sorted(found[each]) for each in expected} == expected


@pytest.mark.parametrize("condition", ["x / y > 1", "x % 0 = 1", "x / 0.0 > 1", "EXISTS(x)"])
def test_what_duckdb_would_read_otherwise_is_refused(condition: str) -> None:
    with pytest.raises(CannotJudge, match="divides by what may be 0, or asks EXISTS"):
        matches({"a": {"x": 1, "y": 2}}, [condition])


def test_values_of_two_kinds_are_refused_because_duckdb_would_cast_them() -> None:
    with pytest.raises(CannotJudge, match="the attribute x is BIGINT in one event and VARCHAR in another"):
        matches({"a": {"x": 1}, "b": {"x": "1"}}, ["x = 1"])
