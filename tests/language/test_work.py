"""What long lists and many patterns cost: counted, because a broker waits while it reads and compares conditions."""

import pytest

from holdfast import ConditionError, covers, overlaps, parse
from holdfast.language import domain, expression, parser
from holdfast.language.constraint import Constraint


def texts(count: int, length: int = 8) -> str:
    return ", ".join(f"'{n:0{length}}'" for n in range(count))


def numbers(first: int, end: int) -> str:
    return ", ".join(map(str, range(first, end)))


def unlike(count: int, length: int = 1) -> str:
    return " AND ".join(f"a NOT LIKE '%{'x' * length}_{n}%'" for n in range(count))


def like(count: int, length: int = 1) -> str:
    return " AND ".join(f"a LIKE '%{'y' * length}_{n}%'" for n in range(count))


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts on which a pattern was tried."""
    found: list[str] = []

    def counting(pattern: str) -> object:
        return lambda text: found.append(text) or False

    monkeypatch.setattr(domain, "like_test", counting)
    return found


@pytest.mark.parametrize(
    "text",
    [
        f"a IN ({texts(4_000)}) AND {unlike(60)}",
        f"a = '{'ab' * 20_000}' AND {unlike(60)}",
        f"({unlike(60)}) AND (b = 1 OR a IN ({texts(700, 40)}))",
        f"{like(30, 400)} AND {unlike(30, 400)}",
        " AND ".join(f"(a NOT LIKE '%{'x_%' * 30}{n}' OR a LIKE '{n}%{'_y%' * 30}')" for n in range(9)),
    ],
)
def test_many_patterns_on_many_texts_are_refused_before_one_is_tried(text: str, tried: list[str]) -> None:
    with pytest.raises(ConditionError, match="too many texts and LIKE patterns of one attribute"):
        parse(text)
    assert not tried


def test_a_list_with_some_patterns_is_what_is_left_of_it() -> None:
    found = parse(f"a IN ({texts(1_000)}) AND a NOT LIKE '%7%' AND a LIKE '0000000_'")
    left = ", ".join(f"'{n:08}'" for n in (0, 1, 2, 3, 4, 5, 6, 8, 9))
    assert str(found) == f"a IN ({left})"
    assert len(parse(f"{unlike(60, 400)}").filters[0]) == 60  # nothing is tried on anything


def test_conditions_with_too_much_to_compare_get_the_safe_answer(tried: list[str]) -> None:
    wide, narrow = parse(unlike(60)), parse(f"a IN ({texts(4_000)})")
    assert not covers(wide, narrow)
    assert overlaps(wide, narrow)
    assert not tried
    assert covers(wide, wide)
    assert covers(narrow, parse(f"a IN ({texts(3_000)})"))


def test_no_value_of_a_list_is_looked_for_in_another_list(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []
    holds = Constraint.holds
    monkeypatch.setattr(Constraint, "holds", lambda self, found: looked.append(found) or holds(self, found))
    wide, narrow = parse(f"a IN ({numbers(0, 9_000)})"), parse(f"a IN ({numbers(5, 8_999)})")
    assert covers(wide, narrow)
    assert not covers(narrow, wide)
    assert covers(parse(f"a NOT IN ({numbers(0, 9_000)})"), parse("a IN (-1, 9000)"))
    assert not covers(parse(f"a NOT IN ({numbers(0, 9_000)})"), parse("a IN (-1, 8999)"))
    assert not covers(parse("a IN (1, 2, 3)"), parse("a IN (TRUE, FALSE)"))
    assert len(looked) < 10


PLAIN = ["1, 2, 007", "1.50, -2, - 3.0", "'x', '', 'it''s'", "'1'", "5", "1, 1.0"]


@pytest.mark.parametrize("listed", PLAIN)
@pytest.mark.parametrize("negated", ["", "NOT "])
def test_a_plain_list_in_parentheses_says_what_it_says_elsewhere(listed: str, negated: str) -> None:
    assert parse(f"({negated}a IN ({listed})) OR b = 0").filters == tuple(
        sorted([*parse(f"a {negated}IN ({listed})").filters, *parse("b = 0").filters], key=str)
    )
    inside = parse(f"(a {negated}IN ({listed})) = c")
    for value in (1, 2, 7, 1.5, -2, 3, "x", "", "it's", "1", 5, None):
        expected = None if value is None else parse(f"a {negated}IN ({listed})").matches({"a": value})
        if isinstance(value, str) == listed.startswith("'") and value is not None:
            assert inside.matches({"a": value, "c": expected})
            assert not inside.matches({"a": value, "c": not expected})


@pytest.mark.parametrize("listed", ["1 2", "1 -, 2", "1,, 2", "'a' 'b'", "'a', 'b',", "1, 'a'", "-'a'"])
def test_a_list_that_is_none_is_refused_in_parentheses_too(listed: str) -> None:
    with pytest.raises(ConditionError):
        parse(f"(a IN ({listed})) OR b = 0")


def test_the_values_of_a_plain_list_are_read_without_an_expression_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    constant = expression.constant
    monkeypatch.setattr(expression, "constant", lambda value: made.append(value) or constant(value))
    for listed in (numbers(0, 9_000), texts(5_000), ", ".join(f"-{n}.5" for n in range(5_000))):
        assert len(parse(f"NOT (a NOT IN ({listed})) OR b = 1").filters) == 2
    assert len(made) < 10


def test_a_list_that_an_expression_cannot_hold_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    constant = expression.constant
    monkeypatch.setattr(expression, "constant", lambda value: made.append(value) or constant(value))
    with pytest.raises(ConditionError, match="more than 1,024 parts"):
        parse(f"a + 1 IN ({numbers(0, 9_000)})")
    assert len(made) < 1_100


def test_a_product_of_alternatives_is_not_counted_anew_for_each_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    size = parser._size
    monkeypatch.setattr(parser, "_size", lambda part: counted.append(len(part)) or size(part))
    factors = [*(f"(a{n} = 1 OR b{n} = 1)" for n in range(7)), *(f"c{n} < {n}" for n in range(10))]
    assert len(parse(" AND ".join(factors)).filters) == 128
    assert sum(counted) < 100
