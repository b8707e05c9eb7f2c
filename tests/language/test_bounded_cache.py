"""What is remembered of patterns is bounded by its size, whatever the patterns."""

from holdfast.language.bounded_cache import Remembering
from holdfast.language.like import like_test


def test_a_result_is_worked_out_once_while_there_is_room() -> None:
    asked: list[str] = []

    def work_out(key: str) -> tuple[int, int]:
        asked.append(key)
        return len(key), len(key)

    remembering = Remembering(work_out, bytes_max=10)
    assert [remembering(key) for key in ("four", "six...", "four")] == [4, 6, 4]
    assert asked == ["four", "six..."]
    assert remembering("one") == 3  # no room left: everything else is forgotten
    assert remembering.bytes == 3
    assert remembering("four") == 4
    assert asked == ["four", "six...", "one", "four"]


def test_a_result_that_alone_is_too_large_is_not_kept_and_drives_nothing_out() -> None:
    remembering = Remembering(lambda key: (key, len(key)), bytes_max=10)
    remembering("four")
    assert remembering("x" * 11) == "x" * 11
    assert remembering.bytes == 4


def test_many_long_patterns_are_not_all_kept() -> None:
    for number in range(100):  # a megabyte each
        assert like_test(f"%{number}{'x' * 60_000}%")(f"{number}{'x' * 60_000}...")
        assert like_test.bytes < 70_000_000
