"""Many LIKE patterns on one text: found by pieces that are looked for, or by cutting the text into windows, alike."""

from random import Random

import pytest

from holdfast.language.like import like_test
from holdfast.matching import patterns
from holdfast.matching.patterns import PatternMap


@pytest.mark.parametrize("sought_max", [0, patterns._SOUGHT_MAX, 10_000])
@pytest.mark.parametrize("seed", range(5))
def test_the_same_patterns_match_however_the_text_is_looked_through(
    seed: int, sought_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patterns, "_SOUGHT_MAX", sought_max)
    dice = Random(seed)
    written = {"".join(dice.choices("aab_%", k=dice.randrange(1, 9))) for _ in range(400)}
    known: PatternMap[str] = PatternMap()
    for each in written:
        known.put(each, each)
    for length in (0, 1, 2, 3, 8, 40, 40):
        text = "".join(dice.choices("ab", k=length))
        found = known.matching(text)
        assert sorted(found) == sorted(each for each in written if like_test(each)(text))


def test_a_long_text_is_not_cut_into_windows_for_few_patterns() -> None:
    class Uncut(str):
        def __getitem__(self, at: object) -> str:
            raise AssertionError("a window was cut out")

    known: PatternMap[int] = PatternMap()
    for number in range(patterns._SOUGHT_MAX):
        known.put(f"%{number:03}%", number)
    assert known.matching(Uncut("y" * 1_000 + "042" + "y" * 1_000 + "17")) == [42]
