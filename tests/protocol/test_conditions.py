"""What a broker remembers of conditions is bounded by what it takes, not by how many there are."""

from unittest import mock

from holdfast.protocol import conditions
from holdfast.protocol.conditions import ConditionBook


def test_a_condition_is_parsed_once_while_there_is_room() -> None:
    book = ConditionBook()
    assert book.subscription("a = 1 AND b < 2") is book.subscription("a = 1 AND b < 2")


def test_a_condition_of_many_filters_takes_the_room_of_many_conditions() -> None:
    many = " AND ".join(f"(a{at} = 1 OR b{at} = 2)" for at in range(6))  # 64 filters of six tests
    with mock.patch.object(conditions, "_PARSED_BYTES_MAX", 100_000):
        book = ConditionBook()
        small = book.subscription("c = 1")
        for at in range(10):
            book.subscription(f"d = {at}")
        assert book.subscription("c = 1") is small
        book.subscription(many)
        book.subscription(f"{many} AND e = 1")
        assert book.subscription("c = 1") == small
        assert book.subscription("c = 1") is not small
