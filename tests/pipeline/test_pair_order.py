"""The places of a pair's events, against a version that compares every event with every other."""

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from holdfast.pipeline.audit.pair_order import LAID_TOGETHER, PLACED, placed

Row = dict[str, Any]


def wanted(seq: int, subscriber: str = "s", **more: Any) -> Row:
    known = {"published_us": 10 * seq, "wanted_us": 0, "settled_us": 10 * seq, "owed": True, "expired": False}
    return {"run": "r", "subscriber": subscriber, "source": "p", "seqs": -1, "seq": seq, **known, **more}


def delivery(seq: int, arrived_us: int, number: int, subscriber: str = "s", held_us: int = 0) -> Row:
    came = {"arrived_us": arrived_us, "number": number, "held_us": held_us, "via": "original"}
    return {"run": "r", "subscriber": subscriber, "source": "p", "seqs": -1, "seq": seq, **came}


def facts(rows: list[Row]) -> list[Row]:
    found = placed(pa.Table.from_pylist(rows, LAID_TOGETHER))
    assert found.schema == PLACED
    return found.to_pylist()


def test_an_event_that_never_came_is_one_row_with_what_its_subscriptions_know() -> None:
    (row,) = facts([wanted(1, wanted_us=5), wanted(1, wanted_us=3, owed=False), wanted(2, owed=False)])
    assert (row["seq"], row["owed"], row["wanted_us"], row["arrived_us"], row["first"]) == (1, True, 3, None, False)


def test_what_came_before_an_earlier_event_has_overtaken_it() -> None:
    rows = facts([wanted(1), wanted(2), delivery(2, 50, 0), delivery(1, 60, 1)])
    assert [(row["seq"], row["overtaken"], row["sent_place"], row["came_place"]) for row in rows] == [
        (1, True, 1, 2),
        (2, False, 2, 1),
    ]


def test_what_was_held_back_has_reached_its_subscriber_earlier() -> None:
    """2 came at 50 and was held back until 1 was handed over at 60: nothing was out of order, but 1 was behind."""
    rows = facts([delivery(1, 60, 0), delivery(2, 60, 1, held_us=10)])
    assert [(row["seq"], row["overtaken"], row["behind"]) for row in rows] == [(1, False, True), (2, False, False)]


def test_an_event_that_nobody_wanted_has_no_time_of_publishing() -> None:
    (row,) = facts([delivery(9, 50, 0)])
    assert (row["published_us"], row["owed"], row["came"]) == (None, False, 1)


def test_nothing_gives_nothing() -> None:
    assert facts([]) == []


@pytest.mark.parametrize("seed", range(40))
def test_places_are_those_of_comparing_every_event_with_every_other(seed: int) -> None:
    dice = Random(seed)
    rows = [wanted(seq, dice.choice("st"), owed=dice.random() < 0.9) for seq in range(1, dice.randint(2, 30))]
    for number in range(dice.randint(0, 60)):
        held_us = dice.choice((0, 0, dice.randint(0, 40)))
        rows.append(delivery(dice.randint(1, 30), dice.randint(10, 60), number, dice.choice("st"), held_us))
    dice.shuffle(rows)
    found = facts(rows)
    assert sorted(map(_key, found)) == sorted(map(_key, compared(rows)))


def _key(row: Row) -> str:
    return repr([(name, row[name]) for name in sorted(row) if name in _LOOKED_AT])


_LOOKED_AT = {
    *("subscriber", "seq", "published_us", "owed", "arrived_us", "number", "first", "again", "overtaken", "behind"),
    *("sent_place", "came_place", "came", "since_us"),
}


def compared(rows: list[Row]) -> list[Row]:
    """The slow and obvious version."""
    facts = []
    for subscriber in "st":
        own = [row for row in rows if row["subscriber"] == subscriber]
        came = [row for row in own if "arrived_us" in row]
        order = {id(row): (row["arrived_us"], row["number"]) for row in came}
        reached = {id(row): (row["arrived_us"] - row["held_us"], row["number"]) for row in came}
        copies = {seq: [row for row in came if row["seq"] == seq] for seq in range(1, 31)}
        firsts = [min(each, key=lambda row: order[id(row)]) for each in copies.values() if each]
        known = {row["seq"]: row for row in own if "owed" in row}
        missing = [row for seq, row in known.items() if row["owed"] and not copies[seq]]
        for row in [*came, *missing]:
            mine = order.get(id(row))
            later = [other for other in came if other["seq"] > row["seq"]]
            before = [other for other in firsts if other["seq"] <= row["seq"]]
            about = known.get(row["seq"], {})
            facts.append(
                {
                    **{name: row.get(name) for name in ("subscriber", "seq", "arrived_us", "number")},
                    "published_us": about.get("published_us"),
                    "owed": about.get("owed", False),
                    "first": any(row is each for each in firsts),
                    "again": mine is not None and len(copies[row["seq"]]) > 1,
                    "overtaken": mine is not None and any(order[id(other)] < mine for other in later),
                    "behind": mine is not None and any(reached[id(other)] < reached[id(row)] for other in later),
                    "sent_place": len(before),
                    "came_place": sum(mine is None or order[id(other)] <= mine for other in firsts),
                    "came": len(firsts),
                    "since_us": None if mine is None else mine[0] - min(each["arrived_us"] for each in came),
                }
            )
    return facts
