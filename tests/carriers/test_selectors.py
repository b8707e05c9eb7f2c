"""Selectors let through whatever a condition matches: by hand, and by ActiveMQ itself over drawn events."""

import asyncio
from random import Random
from typing import Any

import pytest

import holdfast
from holdfast.carriers.addresses import bus_address, carrier_of
from holdfast.carriers.carrier import BusMessage
from holdfast.carriers.selectors import headers_of, selector_of
from holdfast.carriers.stomp import StompCarrier
from holdfast.carriers.stub import BusTerms, LanesWanted, StubBroker
from holdfast.language.lanes import Template, exactly
from holdfast.language.parser import parse
from holdfast.model.messages import Batch
from tests.carriers.riding import taken, twice
from tests.carriers.servers import running

_PASSES = "HoldfastFields IS NULL OR "


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("temp > 30", "(hf_temp > 30.0)"),
        ("site = 'it''s' AND temp <= 3.5", "(hf_site = 'it''s' AND hf_temp <= 3.5)"),
        ("site IN ('a', 'b')", "((hf_site = 'a' OR hf_site = 'b'))"),
        ("n IN (1, 2)", "((hf_n = 1.0 OR hf_n = 2.0))"),
        ("site IS NULL OR temp IS NOT NULL", "(hf_site IS NULL) OR (hf_temp IS NOT NULL)"),
        ("live AND temp > 3", "(hf_temp > 3.0)"),  # a flag cannot be said, the rest is
        ("site > 'm' AND site LIKE 'x%' AND n <> 4", "(hf_n <> 4.0)"),
    ],
)
def test_what_can_be_said_is_said(condition: str, expected: str):
    assert selector_of([parse(condition)]) == _PASSES + expected


@pytest.mark.parametrize(
    "condition",
    ["live", "TRUE", "temp > 3 OR live", "n = 9007199254740993", "n = 1e-9", "site = '12'", '"odd name" = 3', "s = ''"],
)
def test_where_a_part_cannot_be_said_everything_passes(condition: str):
    assert selector_of([parse(condition)]) == ""


def test_an_event_that_headers_cannot_hold_has_none_and_passes():
    assert headers_of({"n": 1, "s": "a", "b": True}) == {
        "HoldfastFields": "1",
        "hf_n": "1",
        "hf_s": "a",
        "hf_b": "True",
    }
    for odd in ({"n": float("inf")}, {"odd name": 1}, {"s": "line\nbreak"}, {"s": " x"}, {"s": ""}, {"s": "x" * 300}):
        assert headers_of(odd) == {}
    assert headers_of({f"a{n}": n for n in range(33)}) == {}


def test_with_a_selector_nothing_is_stated_of_a_lane():
    """Numbers that the server holds back are gaps and no losses: who states them whole would close real ones."""
    frames: dict[bool, Any] = {}
    for selects in (True, False):
        terms = BusTerms("plant", Template("", "plant"), "json", True, False, selects)
        stub = StubBroker("me", terms, None, recovers=True, first_plain=0)  # type: ignore[arg-type]
        stub._selector = selector_of([parse("temp > 30")]) if selects else ""
        about = {"Holdfast": "pub 7 1 5 - -"}
        frames[selects] = stub.on_bus(BusMessage(("plant",), b'{"temp": 31}', about))
    (stated,), (bare,) = frames[False], frames[True]
    assert isinstance(stated, Batch)
    assert (stated.since, stated.upto) == (5, 7)
    assert isinstance(bare, Batch)
    assert bare.upto < bare.since  # an empty range


def test_a_changed_condition_changes_the_selector():
    assert LanesWanted((), (), (), "x") != LanesWanted((), (), (), "y")
    assert selector_of([parse("a > 1"), parse("b > 2")]) == _PASSES + "(hf_a > 1.0) OR (hf_b > 2.0)"


class _Heard:
    def __init__(self) -> None:
        self.numbers: list[int] = []

    def on_message(self, message: BusMessage) -> None:
        self.numbers.append(int(message.payload))

    def on_dropped(self, messages: int) -> None: ...
    def on_down(self, reason: str) -> None: ...


def _drawn(dice: Random) -> dict[str, Any]:
    values = [0, 1, -3, 2.5, 1.0, 1e20, "north", "1", "it's", "ü", True, False]
    return {name: dice.choice(values) for name in ("a", "b", "c") if dice.random() < 0.8}


def _condition(dice: Random) -> str:
    def test() -> str:
        name, op = dice.choice("abc"), dice.choice(["=", "<>", "<", "<=", ">", ">="])
        value = dice.choice(["0", "1", "-3", "2.5", "1.0", "'north'", "'it''s'", "'ü'", "TRUE"])
        if dice.random() < 0.2:
            return f"{name} IS {dice.choice(['', 'NOT '])}NULL"
        if value == "TRUE" and op not in ("=", "<>"):
            op = "="
        return f"{name} {op} {value}"

    return f" {dice.choice(['AND', 'OR'])} ".join(test() for _ in range(dice.choice([1, 2, 3])))


@pytest.mark.slow
def test_activemq_lets_through_whatever_a_condition_matches(tmp_path):
    dice = Random(1)
    events = [_drawn(dice) for _ in range(60)]
    conditions = [_condition(dice) for _ in range(60)]

    async def story(address: str) -> list[str]:
        wrong, held = [], 0
        new = carrier_of(bus_address(address))
        publisher, listener = new(), new()
        assert isinstance(listener, StompCarrier)
        heard = _Heard()
        await publisher.connect(_Heard())
        await listener.connect(heard)
        lane = ("drawn",)
        await listener.subscribe([exactly(lane)])
        for condition in conditions:
            parsed = parse(condition)
            await listener.select(selector_of([parsed]))
            heard.numbers.clear()
            said = [BusMessage(lane, str(at).encode(), headers_of(each)) for at, each in enumerate(events)]
            await publisher.publish([*said, BusMessage(lane, b"-1", {})])  # the last one has no headers: it passes
            async with asyncio.timeout(20):
                while -1 not in heard.numbers:
                    await asyncio.sleep(0.005)
            owed = {at for at, each in enumerate(events) if parsed.matches(each)}
            held += len(events) + 1 - len(heard.numbers)
            wrong += [f"{condition}: {events[at]}" for at in owed - set(heard.numbers)]
        await publisher.close()
        await listener.close()
        assert held > len(events) * len(conditions) / 5  # it does hold back
        return wrong

    with running("stomp", tmp_path) as server:
        assert asyncio.run(story(server.address)) == []


@pytest.mark.slow
def test_what_a_selector_holds_back_is_no_loss_and_what_is_lost_is_recovered(tmp_path):
    async def story(server: Any) -> tuple[Any, Any, int]:
        how = {"space": "plant", "recovery": "end-to-end", "order": "strict", "body": "json"}
        async with holdfast.connect(server.address, **how) as sub, holdfast.connect(server.address, **how) as pub:
            mine = sub.subscribe("n >= 0 AND kind = 'wanted'", queue_max=10_000)
            await sub.flush()
            kinds = ["wanted", *["other"] * 9]
            await pub.publish_many([{"n": n, "kind": kinds[n % 10]} for n in range(3_000)])
            server.kill()
            server.start()
            await pub.publish_many([{"n": n, "kind": kinds[n % 10]} for n in range(3_000, 6_000)])
            got = await taken(mine, 600, 60)
            lost = [each for each in sub.losses().take() if each.first]
            return got, lost, len(mine.account().missing)

    with running("stomp", tmp_path) as server:
        got, lost, missing = asyncio.run(story(server))
    assert [each.event["n"] for each in got] == list(range(0, 6_000, 10))
    assert (twice(got), lost, missing) == ([], [], 0)
