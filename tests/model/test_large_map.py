"""A map of any size behaves as a dict does, and never moves all of its keys at once beyond a few thousand."""

from random import Random
from subprocess import run
from sys import executable

import pytest

from holdfast.model import large_map
from holdfast.model.large_map import LargeMap


@pytest.mark.parametrize("seed", range(4))
def test_it_does_what_a_dict_does(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_map, "_WHOLE_MAX", 40)
    dice = Random(seed)
    ours: LargeMap[str, int] = LargeMap()
    theirs: dict[str, int] = {}
    for step in range(4_000):
        key = f"x = {dice.randrange(200)}"
        match dice.randrange(9):
            case 0 | 1 | 2:
                ours[key] = theirs[key] = step
            case 3:
                assert ours.pop(key, None) == theirs.pop(key, None)
            case 4:
                assert ours.setdefault(key, step) == theirs.setdefault(key, step)
            case 5 if key in theirs:
                del ours[key], theirs[key]
            case 7 if dice.random() < 0.2:
                for each, value in ours.pop_part().items():
                    assert theirs.pop(each) == value
            case 6 if dice.random() < 0.02:
                ours.clear()
                theirs.clear()
            case _:
                assert ours.get(key) == theirs.get(key)
                assert (key in ours) == (key in theirs)
        assert len(ours) == len(theirs)
        assert bool(ours) == bool(theirs)
    assert dict(ours.items()) == theirs
    assert sorted(ours) == sorted(theirs)
    with pytest.raises(KeyError):
        ours["nobody's"]
    with pytest.raises(KeyError):
        ours.pop("nobody's")


@pytest.mark.parametrize("whole_max", [4_096, 100])
@pytest.mark.parametrize("count", [1, 2, 64, 1_024, 4_096])
def test_the_keys_of_a_part_are_those_whose_number_says_so(
    whole_max: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_map, "_WHOLE_MAX", whole_max)
    ours: LargeMap[int, None] = LargeMap(lambda each: each * 7)
    ours.update(dict.fromkeys(range(3_000)))
    for at in range(0, count, max(1, count // 50)):
        assert sorted(ours.keys_of(at, count)) == [each for each in range(3_000) if each * 7 % count == at]


def test_few_keys_keep_the_order_in_which_they_came() -> None:
    keys = [f"{each}" for each in range(4_000, 0, -1)]
    few: LargeMap[str, None] = LargeMap()
    few.update(dict.fromkeys(keys))
    assert list(few) == keys


def test_no_dict_in_it_becomes_large() -> None:
    many: LargeMap[str, int] = LargeMap()
    for number in range(30_000):
        many[f"price > {number}"] = number
    assert len(many) == 30_000
    assert max(map(len, many._parts)) < 100


def test_many_keys_have_one_order_in_every_process() -> None:
    code = (
        "from holdfast.model.large_map import LargeMap\n"
        "found = LargeMap()\n"
        "for number in range(5_000): found[f'x = {number}'] = number\n"
        "print(sum(at * found[key] for at, key in enumerate(found)))"
    )
    told = {run([executable, "-c", code], capture_output=True, check=True).stdout for _ in range(2)}
    assert len(told) == 1
