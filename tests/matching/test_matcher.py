"""The matcher's contract: adding, removing, asking, saving, opening."""

import multiprocessing
from pathlib import Path

import pyarrow as pa
import pytest

from holdfast import ConditionError, Matcher, parse
from holdfast.matching import kernels, placing
from holdfast.model.errors import InputError, MisuseError

IBM = {"symbol": "IBM", "price": 99.5, "volume": 10}
TABLE = pa.Table.from_pylist([IBM, {"symbol": "MSFT", "price": 300.0, "volume": 5}])


def small() -> Matcher:
    matcher = Matcher()
    matcher.add("cheap", "symbol = 'IBM' AND price < 120")
    matcher.add("dear", "price > 200")
    matcher.add("either", "symbol = 'IBM' OR price < 120")
    return matcher


def pairs(matcher: Matcher, table: pa.Table = TABLE) -> list[tuple[int, str | int]]:
    found = matcher.match_batch(table)
    return sorted(zip(found["event"].to_pylist(), found["subscription"].to_pylist(), strict=True))


def test_one_event_and_a_table_get_the_same_answer() -> None:
    assert sorted(small().match(IBM)) == ["cheap", "either"]
    assert pairs(small()) == [(0, "cheap"), (0, "either"), (1, "dear")]


def test_a_disjunction_appears_once_however_many_of_its_filters_hold() -> None:
    matcher = Matcher()
    matcher.add(1, "a = 1 OR b = 2 OR c > 0 OR d LIKE 'x%' OR d LIKE '%y' OR e IN (1, 2) OR f IS NULL")
    event = {"a": 1, "b": 2, "c": 3, "d": "xy", "e": 2}
    assert matcher.match(event) == [1]
    assert pairs(matcher, pa.Table.from_pylist([event])) == [(0, 1)]


def test_a_parsed_subscription_may_be_added() -> None:
    matcher = Matcher()
    matcher.add(1, parse("price < 120"))
    assert matcher.match(IBM) == [1]


def test_adding_twice_and_removing_the_unknown_are_errors_that_change_nothing() -> None:
    matcher = small()
    with pytest.raises(MisuseError, match="'dear' already"):
        matcher.add("dear", "price < 0")
    with pytest.raises(MisuseError, match="no subscription 'absent'"):
        matcher.remove("absent")
    with pytest.raises(ConditionError):
        matcher.add("bad", "price <")
    assert "bad" not in matcher
    assert len(matcher) == 3
    assert pairs(matcher) == [(0, "cheap"), (0, "either"), (1, "dear")]


def test_after_the_last_subscription_has_gone_others_may_have_another_sort_of_id() -> None:
    matcher = Matcher()
    assert pairs(matcher) == []
    matcher.add(7, "TRUE")
    assert pairs(matcher) == [(0, 7), (1, 7)]
    matcher.remove(7)
    assert pairs(matcher) == []
    matcher.add("seven", "TRUE")
    assert pairs(matcher) == [(0, "seven"), (1, "seven")]


def test_ids_are_of_one_sort() -> None:
    matcher = small()
    with pytest.raises(MisuseError, match="all strings or all integers"):
        matcher.add(7, "TRUE")
    for bad in (True, 1.5, None, 2**63):
        with pytest.raises(MisuseError, match="string or a 64-bit integer"):
            Matcher().add(bad, "TRUE")  # type: ignore[arg-type]


def test_changes_show_at_once_in_live_and_batch_answers() -> None:
    matcher = small()
    assert len(pairs(matcher)) == 3
    matcher.match(IBM)
    matcher.remove("cheap")
    matcher.add("any", "TRUE")
    assert sorted(matcher.match(IBM)) == ["any", "either"]
    assert pairs(matcher) == [(0, "any"), (0, "either"), (1, "any"), (1, "dear")]
    matcher.remove("any")
    matcher.add("cheap", "price = 300")
    assert pairs(matcher) == [(0, "either"), (1, "cheap"), (1, "dear")]


def test_one_change_compiles_only_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.matching.columns import Columns

    matcher = Matcher()
    for number in range(5_000):
        matcher.add(number, f"price > {number}")
    matcher.match_batch(TABLE)
    sizes = []
    compile_ = Columns.of

    def watched(filters: object) -> Columns:
        compiled = compile_(filters)  # type: ignore[arg-type]
        sizes.append(compiled.size)
        return compiled

    monkeypatch.setattr(Columns, "of", watched)
    for number in range(3):
        matcher.remove(number)
        matcher.add(9_000 + number, "price = 99.5")
        assert matcher.match_batch(TABLE).num_rows == (100 - 1 - number) + (300 - 1 - number) + number + 1
    assert sizes == [1, 2, 3]


def test_many_changes_are_compiled_together() -> None:
    matcher = Matcher()
    for number in range(3_000):
        matcher.add(number, "price < 120")
    matcher.match_batch(TABLE)
    for number in range(2_000):
        matcher.remove(number)
    for number in range(5_000, 5_010):
        matcher.add(number, "price > 120")
    assert matcher.match_batch(TABLE).num_rows == 1_010


def test_an_empty_matcher_answers() -> None:
    matcher = Matcher()
    assert matcher.match(IBM) == []
    found = matcher.match_batch(TABLE)
    assert found.num_rows == 0
    assert found.column_names == ["event", "subscription"]


def test_an_id_with_half_a_character_is_refused_where_it_is_added() -> None:
    matcher = Matcher()
    with pytest.raises(MisuseError, match=r"the id 'a\\ud800' holds a lone surrogate"):
        matcher.add("a\ud800", "x = 1")
    matcher.add("é", "x = 1")
    assert matcher.match_batch(pa.table({"x": [1]}))["subscription"].to_pylist() == ["é"]


def test_an_emptied_matcher_may_change_its_sort_of_id() -> None:
    matcher = small()
    matcher.match_batch(TABLE)
    for id_ in ("cheap", "dear", "either"):
        matcher.remove(id_)
    matcher.add(7, "TRUE")
    assert pairs(matcher) == [(0, 7), (1, 7)]
    matcher.add(8, "price > 200")
    assert pairs(matcher) == [(0, 7), (1, 7), (1, 8)]


def test_a_saved_matcher_answers_and_changes_like_the_original(tmp_path: Path) -> None:
    matcher = small()
    matcher.add("text", "symbol LIKE '%BM' OR symbol LIKE '%S_T%' AND volume <> 7")
    matcher.save(tmp_path / "m.holdfast")
    opened = Matcher.open(tmp_path / "m.holdfast")
    assert len(opened) == 4
    assert pairs(opened) == pairs(matcher)
    opened.add("new", "TRUE")
    opened.remove("dear")
    assert pairs(opened) == [(0, "cheap"), (0, "either"), (0, "new"), (0, "text"), (1, "new"), (1, "text")]
    assert sorted(opened.match(IBM)) == ["cheap", "either", "new", "text"]
    opened.save(tmp_path / "again.holdfast")
    assert pairs(Matcher.open(tmp_path / "again.holdfast")) == pairs(opened)


def test_an_opened_matcher_can_be_saved_again_without_being_parsed(tmp_path: Path) -> None:
    small().save(tmp_path / "a")
    Matcher.open(tmp_path / "a").save(tmp_path / "b")
    assert pairs(Matcher.open(tmp_path / "b")) == pairs(small())


@pytest.mark.parametrize("count", [0, 1])
def test_the_smallest_matchers_can_be_saved(tmp_path: Path, count: int) -> None:
    matcher = Matcher()
    for number in range(count):
        matcher.add(number, "TRUE")
    matcher.save(tmp_path / "m")
    assert Matcher.open(tmp_path / "m").match_batch(TABLE).num_rows == 2 * count


def _count_pairs(path: str) -> int:
    return Matcher.open(path).match_batch(TABLE).num_rows


def test_other_processes_share_the_file(tmp_path: Path) -> None:
    small().save(tmp_path / "m")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(_count_pairs, [str(tmp_path / "m")]) == [3]


def test_a_saved_matcher_runs_the_kernels_that_were_compiled_for_the_original(tmp_path: Path) -> None:
    original = Matcher()
    for number in range(300):
        original.add(f"s{number}", f"symbol = 'S{number % 50}' AND price < {number}")
    trades = pa.table({"symbol": ["S1", "S2"], "price": [5.0, 9.0]})
    pairs = original.match_batch(trades).num_rows
    compiled = [each for room in (kernels, placing) for each in vars(room).values() if hasattr(each, "signatures")]
    before = [list(each.signatures) for each in compiled]
    original.save(tmp_path / "m")
    assert Matcher.open(tmp_path / "m").match_batch(trades).num_rows == pairs > 0
    assert [list(each.signatures) for each in compiled] == before


def test_a_damaged_or_foreign_file_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none: no such file"):
        Matcher.open(tmp_path / "none")
    small().save(tmp_path / "m")
    good = (tmp_path / "m").read_bytes()
    for name, content in {"empty": b"", "text": b"hello", "half": good[: len(good) // 2]}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=f"{name}: not a saved matcher"):
            Matcher.open(tmp_path / name)
    table = pa.table({"name": ["x"]})
    with pa.ipc.new_file(tmp_path / "other", table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(InputError, match="other: not a saved matcher"):
        Matcher.open(tmp_path / "other")


def test_a_newer_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    small().save(tmp_path / "m")
    content = (tmp_path / "m").read_bytes().replace(b'"format": 7', b'"format": 9')
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(InputError, match="saved in format 9, this version reads format 7"):
        Matcher.open(tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == content


def test_a_failed_save_leaves_the_old_file_and_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small().save(tmp_path / "m")
    before = (tmp_path / "m").read_bytes()

    def full_disk(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.replace", full_disk)
    with pytest.raises(OSError, match="no space"):
        Matcher().save(tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_removed_disjunction_is_gone_although_its_filters_look_alike_in_their_buckets() -> None:
    matcher = Matcher()
    matcher.match({})
    for n in range(5):
        matcher.add(f"a{n}", f"a = {100 + n}")
    matcher.add("b", "b = 100")
    # The first filter is filed under b, the others under a, and there all are left with b = 3.
    matcher.add("k", "a IN (1, 2, 3, 4) AND b = 3 OR a IN (1, 5) AND b = 3 OR a IN (1, 2) AND b = 3")
    assert matcher.match({"a": 2, "b": 3}) == ["k"]
    matcher.remove("k")
    assert [matcher.match({"a": a, "b": 3}) for a in range(1, 6)] == [[]] * 5


def test_a_file_with_any_bit_changed_is_refused_or_gives_the_same_answer(tmp_path: Path) -> None:
    small().save(tmp_path / "m")
    good = (tmp_path / "m").read_bytes()
    refused = 0
    for at in range(0, len(good), 7):
        (tmp_path / "m").write_bytes(good[:at] + bytes([good[at] ^ 1 << at % 8]) + good[at + 1 :])
        try:
            opened = Matcher.open(tmp_path / "m")
        except InputError:
            refused += 1
        else:
            assert pairs(opened) == pairs(small())
            assert sorted(opened.match(IBM)) == ["cheap", "either"]
    assert refused > len(good) // 7 // 2  # the rest is padding


def test_a_condition_that_is_no_string_is_misuse() -> None:
    with pytest.raises(MisuseError, match="a condition is a string, not NoneType"):
        Matcher().add(1, None)  # type: ignore[arg-type]


def test_what_is_not_an_event_or_a_condition_is_misuse() -> None:
    with pytest.raises(MisuseError, match="an event is a map"):
        small().match([1])  # type: ignore[arg-type]
    with pytest.raises(MisuseError, match="a condition is a string"):
        Matcher().add("y", 5)  # type: ignore[arg-type]
