"""A broker's history: a search finds what reading everything would find, and reads little of it."""

from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast import parse
from holdfast.store.history import History
from holdfast.store.log import GoneError, Retention
from holdfast.store.logged import Logged
from holdfast.store.zones import BLOCK, ZoneMap, opened

ID = "0123456789abcdef0123456789abcdef"
SMALL = Retention(segment_bytes=40_000)
CITIES = ["Aachen", "Åbo", "Zürich", "Ulm", "Ulmen", "東京", "", "a" * 40]


def event(number: int, attributes: dict[str, Any]) -> Logged:
    return Logged("desk", number, number * 1_000, 0, "original", attributes)


def drawn(dice: Random, number: int) -> Logged:
    attributes: dict[str, Any] = {"n": number, "city": dice.choice(CITIES), "unit": f"u{dice.randrange(2_000)}"}
    attributes["even"] = number % 2 == 0
    if dice.random() < 0.3:
        values = [
            1,
            2.5,
            -0.0,
            2**60 + 1,
            float("nan"),
            float("inf"),
            "x",
            True,
            None,
            datetime(2026, 1, 1, tzinfo=UTC),
        ]
        attributes["any"] = dice.choice(values)
    return event(number, attributes)


def found(history: History, condition: str, lo: int = 0, since_us: int = 0, events_max: int = 10**9) -> list[int]:
    """All that a search finds, in as many parts as it takes."""
    numbers, hi = [], history.log.end
    while lo < hi:
        part = history.search(parse(condition), lo, hi, since_us, events_max, 2**30)
        assert part.next > lo
        numbers += [each.seq for each in part.events]
        lo = part.next
    return numbers


CONDITIONS = [
    "n = 700",
    "n IN (3, 4, 900)",
    "n IN (3, 4, 5, 6, 7, 900)",
    "n > 998",
    "n < 1 OR n <= 0",
    "n < 20 OR n >= 990",
    "unit = 'u77'",
    "city = 'Ulm' AND n BETWEEN 100 AND 400",
    "city LIKE 'Ulm%'",
    "city LIKE '%en' AND unit LIKE 'u19%'",
    "city > 'Z'",
    "city <= 'Aachen'",
    "city = ''",
    "any IS NULL AND n < 100",
    "any = 1152921504606846977",
    "any > 2",
    "any > 2.5",
    "any < 1",
    "any > 1152921504606846976",
    "any < 1152921504606846977",
    "any = 0",
    "any = 'x' OR any = TRUE",
    "any >= TIMESTAMP '2025-01-01 00:00:00'",
    "any IS NOT NULL",
    "nowhere = 1",
    "nowhere IS NULL AND n = 5",
    "n * 2 = 1000 AND unit LIKE 'u%'",
    "NOT (n > 3)",
    "even AND n < 9",
]


@pytest.fixture(scope="module")
def events() -> list[Logged]:
    dice = Random(7)
    return [drawn(dice, number) for number in range(1_000)]


def filled(folder: Path, events: list[Logged], step: int = 37) -> History:
    history = History(folder, ID, SMALL, 0)
    for start in range(0, len(events), step):
        history.append(events[start : start + step], 1)
    return history


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_search_finds_what_reading_everything_finds(tmp_path: Path, events: list[Logged], condition: str) -> None:
    history = filled(tmp_path, events)
    assert len(history.log.firsts) > 1
    expected = [each.seq for each in events if parse(condition).matches(each.attributes)]
    assert found(history, condition) == expected
    assert found(history, condition, events_max=3) == expected
    assert found(history, condition, lo=501) == [each for each in expected if each >= 501]
    assert found(history, condition, since_us=600_000) == [each for each in expected if each >= 600]
    for count in (1, 5):
        start, left = history.search_back(parse(condition), history.log.end, count)
        assert (found(history, condition, lo=start), left) == (expected[-count:], max(0, count - len(expected)))


def test_what_was_written_before_a_restart_is_found_whether_its_zone_maps_are_there_or_not(
    tmp_path: Path, events: list[Logged]
) -> None:
    filled(tmp_path, events).close()
    maps = sorted(tmp_path.glob("*.zones"))
    expected = [each.seq for each in events if each.attributes["unit"] == "u77"]
    for damage in (lambda path: None, lambda path: path.write_bytes(b"\1" + path.read_bytes()[1:]), Path.unlink):
        damage(maps[0])
        again = History(tmp_path, ID, SMALL, 0)
        assert found(again, "unit = 'u77'") == expected
        again.close()


def test_a_rare_value_is_found_by_reading_few_events(tmp_path: Path) -> None:
    history = History(tmp_path, ID, Retention(), 0)
    history.append([event(each, {"unit": f"u{each % 10_000}", "load": each % 97}) for each in range(40_000)], 1)
    part = history.search(parse("unit = 'u1234' AND load >= 0"), 0, 40_000, 0, 100, 2**20)
    assert [each.seq for each in part.events] == [1_234, 11_234, 21_234, 31_234]
    assert part.read <= 4 + 40_000 % BLOCK + 10  # those, the block that is not full, and events of the same code


def test_a_strict_bound_that_a_block_only_reaches_leaves_it_out() -> None:
    zones = ZoneMap()
    for number in range(4 * BLOCK):
        zones.add({"speed": 129.9 if number < 3 * BLOCK else 130.0}, number)
    assert len(zones.candidates(parse("speed > 129.9"), 0, 0, 4 * BLOCK)) == BLOCK
    assert len(zones.candidates(parse("speed >= 129.9"), 0, 0, 4 * BLOCK)) == 4 * BLOCK


def test_more_attributes_than_a_zone_map_knows_hide_nothing(tmp_path: Path) -> None:
    history = History(tmp_path, ID, Retention(), 0)
    history.append([event(each, {f"a{each % 200}": each}) for each in range(600)], 1)
    for name in range(200):
        assert found(history, f"a{name} >= 0") == [name, name + 200, name + 400]


def test_a_map_that_was_cut_short_is_not_taken_for_a_smaller_one() -> None:
    zones = ZoneMap()
    for number in range(3 * BLOCK):
        zones.add({"n": number}, number)
    data = zones.saved()
    assert opened(data) is not None
    assert all(opened(data[:size]) is None for size in range(0, len(data), 97))


def test_old_events_go_with_their_zone_maps_and_whoever_asks_for_them_is_told(
    tmp_path: Path, events: list[Logged]
) -> None:
    history = History(tmp_path, ID, Retention(keep_bytes=30_000, segment_bytes=8_000), 0)
    for start in range(0, len(events), 10):
        history.append(events[start : start + 10], 1)
        history.drop_old(1)
    assert history.log.oldest > 0
    assert min(int(path.stem) for path in tmp_path.glob("*.zones")) == history.log.oldest
    with pytest.raises(GoneError):
        history.search(parse("TRUE"), 0, history.log.end, 0, 10, 2**20)
    oldest = history.log.oldest
    assert found(history, "n >= 0", lo=oldest) == list(range(oldest, 1_000))
    history.drop_old(8 * 86_400 * 1_000_000)
    assert (history.log.oldest, found(history, "n >= 0", lo=1_000)) == (1_000, [])
    history.append([event(1_000, {"n": 1_000})], 8 * 86_400 * 1_000_000)
    assert found(history, "n = 1000", lo=1_000) == [1_000]
