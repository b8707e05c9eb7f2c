"""A matcher built from many conditions at once: the same answers as one that was added to, in less memory."""

from pathlib import Path

import pyarrow as pa
import pytest

from holdfast import ConditionError, Matcher
from holdfast.matching.archive import Archive
from holdfast.model.errors import MisuseError

CONDITIONS = [f"a >= {n} AND a <= {n + 50} AND b <> {n % 7} OR name = 'n{n}'" for n in range(300)]
EVENTS = [{"a": n, "b": n % 5, "name": f"n{n}"} for n in range(0, 400, 37)]


def added(count: int = len(CONDITIONS)) -> Matcher:
    matcher = Matcher()
    for number, condition in enumerate(CONDITIONS[:count]):
        matcher.add(number, condition)
    return matcher


def answers(matcher: Matcher) -> list[list[object]]:
    singles = [sorted(matcher.match(event)) for event in EVENTS]
    table = matcher.match_batch(pa.Table.from_pylist(EVENTS)).to_pylist()
    assert singles == [sorted(row["subscription"] for row in table if row["event"] == at) for at in range(len(EVENTS))]
    return singles


def test_a_built_matcher_answers_like_one_that_was_added_to_and_so_does_its_file(tmp_path: Path) -> None:
    built = Matcher.build(enumerate(CONDITIONS))
    assert len(built) == len(CONDITIONS)
    assert answers(built) == answers(added())
    built.save(tmp_path / "m")
    assert answers(Matcher.open(tmp_path / "m")) == answers(built)


@pytest.mark.parametrize("opened", [False, True])
def test_changes_to_many_conditions_parse_none_of_them(
    tmp_path: Path, opened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    matcher = Matcher.build(enumerate(CONDITIONS))
    if opened:
        matcher.save(tmp_path / "m")
        matcher = Matcher.open(tmp_path / "m")
    monkeypatch.setattr("holdfast.matching.matcher.parse", None)  # whoever calls it fails
    plain = added()
    for each in (matcher, plain):
        each.remove(3)
        each.add(1_000, "a >= 0")
        each.remove(10)
    assert (3 in matcher, 1_000 in matcher, 4 in matcher, len(matcher)) == (False, True, True, len(plain))
    assert answers(matcher) == answers(plain)
    with pytest.raises(MisuseError, match="there is a subscription 4 already"):
        matcher.add(4, "a = 1")
    with pytest.raises(MisuseError, match="there is no subscription 3"):
        matcher.remove(3)


def test_what_is_left_of_a_built_matcher_is_compiled_anew_and_saved(tmp_path: Path) -> None:
    matcher, plain = Matcher.build(enumerate(CONDITIONS)), added()
    for each in (matcher, plain):
        for number in range(200):
            each.remove(number)
        for number in range(300):
            each.add(5_000 + number, f"b = {number % 5} AND a > {number}")
    assert answers(matcher) == answers(plain)
    matcher.save(tmp_path / "m")
    assert answers(Matcher.open(tmp_path / "m")) == answers(plain)


@pytest.mark.parametrize("many", [1, 200])  # pairs of an event: keys are found one by one, or all at once
def test_what_is_removed_from_a_built_matcher_is_gone_whatever_its_id(many: int) -> None:
    for ids in ([10**18 + n for n in range(many + 2)], [f"q{n}" for n in range(many + 2)]):
        matcher = Matcher.build([(id_, "a > 0") for id_ in ids])
        assert sorted(matcher.match({"a": 1})) == sorted(ids)
        matcher.remove(ids[1])
        assert sorted(matcher.match({"a": 1})) == sorted([ids[0], *ids[2:]])
        assert ids[1] not in matcher and len(matcher) == many + 1
        matcher.add(ids[1], "a < 0")
        assert matcher.match({"a": -1}) == [ids[1]]


def test_building_refuses_what_adding_refuses() -> None:
    with pytest.raises(MisuseError, match="two subscriptions have the id 1"):
        Matcher.build([(1, "a = 1"), (1, "a = 2")])
    with pytest.raises(MisuseError, match="all strings or all integers"):
        Matcher.build([(1, "a = 1"), ("x", "a = 2")])
    with pytest.raises(ConditionError):
        Matcher.build([(1, "a = ")])


def test_an_archive_gives_back_every_text() -> None:
    kinds = [
        "a = '{n}\0\\0\\\\0\1\\1é'",
        "b7 < -{n} AND c > {n}.{n} OR x = 'a'",
        "d = 00{n}00000000000 AND e = '1\u0663{n}'",
    ]
    texts = [kinds[n % 3].format(n=n) for n in range(2_048)] + ["TRUE"] * 1_024 + ["a = 4294967296"]
    archive = Archive()
    for each in texts:
        archive.add(each)
    assert [*archive] == texts
    for at in (0, 1_023, 1_024, 2_047, 3_071, 3_072):
        assert archive[at] == texts[at]
