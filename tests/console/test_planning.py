"""Plans with changed values, against products worked out by hand; the saved file is a network file."""

from math import isclose
from typing import Any

import pytest

from holdfast.console.planning import PlanDesk
from holdfast.model.errors import HoldfastError
from holdfast.network.load import parse_text

LINE: dict[str, Any] = {
    "duration_s": 20.0,
    "topology": {"kind": "line", "brokers": ["b1", "b2", "b3"]},
    "links": {"loss": 0.1},
    "client": [
        {"id": "p", "broker": "b1", "publish": [{"every_s": 0.1, "attributes": {"n": 1}}]},
        {"id": "near", "broker": "b1", "subscriptions": ["n = 1"]},
        {"id": "far", "broker": "b3", "subscriptions": ["n = 1"]},
    ],
}


def test_a_subscriber_gets_the_product_of_its_links_and_of_what_is_up() -> None:
    desk = PlanDesk(parse_text(LINE))
    shares = desk.about()["shares"]
    assert isclose(shares["near"][1], 1.0) and isclose(shares["far"][1], 0.81)
    found = desk.tried({"links": {"b2~b1": {"loss": 0.5}}})
    assert isclose(found["before"]["far"][1], 0.81) and isclose(found["after"]["far"][1], 0.45)
    found = desk.tried({"brokers": {"b2": {"availability": 0.5}}})
    assert isclose(found["after"]["far"][1], 0.81 * 0.5) and isclose(found["after"]["near"][1], 1.0)


def test_recovery_gets_back_what_links_lose() -> None:
    found = PlanDesk(parse_text(LINE)).tried({"values": {"recovery": "end-to-end"}})
    assert isclose(found["after"]["far"][0], 0.81) and found["after"]["far"][1] > 0.999


def test_the_file_that_is_saved_says_what_was_changed_and_nothing_else() -> None:
    changes = {"links": {"b1~b2": {"loss": 0.5, "delay_ms": 7}}, "brokers": {"b3": {"availability": 0.9}}}
    saved = parse_text(PlanDesk(parse_text(LINE)).tried(changes)["file"])
    links = {(each.a, each.b): (each.loss_ratio, each.delay_us) for each in saved.links}
    assert links["b1", "b2"] == (0.5, 7_000) and links["b2", "b3"] == (0.1, 1_000)
    broker = next(each for each in saved.brokers if each.id == "b3")
    assert broker.mtbf_us and broker.mttr_us and isclose(broker.mtbf_us / (broker.mtbf_us + broker.mttr_us), 0.9)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"links": {"b1~b9": {"loss": 0.5}}}, "b9"),
        ({"links": {"b1": {"loss": 0.5}}}, "not a link"),
        ({"links": {"b1~b2": {"colour": 1}}}, "colour"),
        ({"links": {"b1~b2": {"loss": 7}}}, "loss"),
        ({"brokers": {"b1": {"availability": "often"}}}, "availability"),
        ({"values": {"seed": 1}}, "seed"),
        ({"brokers": 7}, "expected"),
    ],
)
def test_a_change_that_cannot_be_is_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(HoldfastError, match=words):
        PlanDesk(parse_text(LINE)).tried(changes)
