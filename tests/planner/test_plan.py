"""Subscribers: who weighs whom how much, what is recommended, what if, and who is let in."""

import pytest

from holdfast.model.errors import InputError
from holdfast.network.load import parse_text
from holdfast.network.schema import Network
from holdfast.planner.admission import admission
from holdfast.planner.advice import advise, gains
from holdfast.planner.demand import demand_of
from holdfast.planner.drawing import svg
from holdfast.planner.pairs import Predictor
from holdfast.planner.plan import Case, SubscriberPrediction, case_of, plan, predict
from holdfast.planner.what_if import changed

TEXT = """
duration_s = 10_000

[topology]
kind = "line"
brokers = ["west", "middle", "east"]

[brokers]
availability = 0.9
cycle_s = 1_000

[[broker]]
id = "middle"
availability = 0.8
cycle_s = 1_000

[[client]]
id = "near"
broker = "middle"
publish = [{ every_s = 10, attributes = { kind = "a" }, lifetime_s = 60 }]

[[client]]
id = "far"
broker = "west"
publish = [
  { every_s = 30, attributes = { kind = "a" }, lifetime_s = 60 },
  { every_s = 1, attributes = { kind = "b" }, lifetime_s = 60 },
]

[[client]]
id = "desk"
broker = "east"
subscriptions = ["kind = 'a'"]

[[client]]
id = "other"
broker = "east"
subscriptions = ["kind = 'b'"]
"""


def network(**settings: object) -> Network:
    return parse_text(TEXT, settings={key.replace("__", "."): value for key, value in settings.items()})


def of(case: Case) -> dict[str, SubscriberPrediction]:
    return {each.subscriber: each for each in plan(case, 1_000, 1)}


def test_a_subscriber_counts_each_publisher_by_what_it_wants_of_it() -> None:
    """desk gets three events from middle for each one from west; other gets all from west."""
    found = of(case_of(network()))
    middle, west = 0.8 * 0.9, 0.9 * 0.8 * 0.9
    assert found["desk"].counted.basic == pytest.approx(0.75 * middle + 0.25 * west)
    assert found["other"].counted.basic == pytest.approx(west)
    assert found["other"].assumed_up.basic == pytest.approx(0.8)
    assert found["other"].weakest == "west"


def test_publishers_of_a_drawn_workload_count_alike() -> None:
    text = (
        TEXT.split("[[client]]", maxsplit=1)[0]
        + '[clients]\nper_broker = 1\n[workload]\nkind = "patterns"\nlifetime_s = 60\n'
    )
    demand = demand_of(parse_text(text))
    rates = demand.rates(0)
    assert len(rates) == 3
    assert rates == pytest.approx([rates[0]] * 3)


def test_chances_of_the_file_count_where_it_has_them() -> None:
    text = (
        TEXT.split("[[client]]", maxsplit=1)[0]
        + '[clients]\nper_broker = 1\n[workload]\nkind = "rates"\nmatch = [0.1, 0.9]\n'
    )
    made = parse_text(text)
    demand = demand_of(made)
    chances = [made.workload.chances(made.seed, client.id)[1] for client in made.clients]  # type: ignore[union-attr]
    rates = demand.rates(1)
    assert rates / rates.sum() == pytest.approx([each / sum(chances) for each in chances])


def test_the_cheapest_scheme_that_is_enough_is_recommended_and_what_holds_it_back_is_named() -> None:
    case = case_of(network())
    predictor = Predictor(case.overlay)
    found = list(predict(case, predictor))
    low = advise(found, 0.6, "counted")
    assert low.scheme == "basic"
    middling = advise(found, found[1].counted.retransmission, "counted")
    assert middling.scheme == "retransmission"
    assert "is enough" in middling.words()
    high = advise(found, 0.9999, "counted")
    assert high.scheme is None
    assert "no scheme is enough" in high.words()
    ranked = gains(case, predictor, "basic", "counted", "other")
    assert ranked[0].component == "middle"  # it is down most, and on every path
    assert ranked[0].worst == pytest.approx(0.9 * 0.9 - 0.9 * 0.8 * 0.9)


def test_what_if_a_broker_were_better() -> None:
    case = changed(case_of(network()), "middle=0.95")
    assert of(case)["other"].counted.basic == pytest.approx(0.9 * 0.95 * 0.9)
    assert case.overlay.brokers[1].up_s == pytest.approx(950.0)
    shorter = changed(case_of(network()), "middle.mttr_s=50")
    assert shorter.overlay.brokers[1].availability == pytest.approx(800 / 850)


def test_what_if_a_link_or_a_broker_were_gone() -> None:
    cut = of(changed(case_of(network()), "remove west-middle"))
    assert cut["other"].counted.basic == 0.0
    assert cut["desk"].counted.basic == pytest.approx(0.75 * 0.8 * 0.9)
    gone = of(changed(case_of(network()), "remove middle"))
    assert gone["desk"].counted.hybrid == 0.0
    alone = changed(case_of(network()), "remove west")
    assert of(alone)["desk"].counted.basic == pytest.approx(0.8 * 0.9)  # what west published is not missed


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("remove middel", 'did you mean "middle"'),
        ("west-east=0.9", "no link between west and east"),
        ("middle=2", "expected a number above 0, up to 1"),
        ("middle", "expected remove NAME"),
        ("middle=often", "is not a number"),
        ("west-middle.mttr_s=5", "never fails in the file"),
        ("remove east", "no subscriber or no publisher is left"),
        ("nobody=0.9, middle=2", "no broker or link.*up to 1"),
        ("remove quux", "there are the brokers .*middle.*; a link is written as"),
        ("remove middle, middle=0.9", "middle is changed or removed before"),
        ("middle=0.9, remove middle", "middle is changed or removed before"),
        ("middle.mttr_s=9, middle.mttr_s=8", "middle is changed or removed before"),
        ("middle.mttr_s=9, middle=0.9", "middle is changed or removed before"),
        ("west-middle=0.9, middle-west=0.8", "middle-west is changed or removed before"),
    ],
)
def test_a_change_that_cannot_be_understood_is_told(words: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        changed(case_of(network()), words)


def test_a_newcomer_is_judged_by_the_network_s_own_scheme() -> None:
    made = network()
    found = admission(made, "middle", "kind = 'b'", 0.7, made.plan)
    assert found.value == pytest.approx(0.9 * 0.8)
    assert found.accepted
    refused = admission(made, "middle", "kind = 'b'", 0.75, made.plan)
    assert not refused.accepted
    assert "refused" in refused.words()
    assert "retransmission would give" in refused.words()
    with pytest.raises(InputError, match="no broker"):
        admission(made, "nowhere", "TRUE", 0.7, made.plan)


def test_the_picture_shows_every_broker_and_link_with_its_numbers() -> None:
    case = case_of(network())
    drawing = svg(case, list(of(case).values()), "basic", "counted")
    assert drawing.count('class="broker"') == 3
    assert drawing.count('class="link"') == 2
    assert "east: up 0.9000 of the time; its 2 subscribers get" in drawing
    assert drawing == svg(case, list(of(case).values()), "basic", "counted")


def test_a_burst_counts_as_what_it_publishes_in_the_run() -> None:
    text = """
        duration_s = 100
        topology = { kind = "listed", brokers = ["b1", "b2", "b3"], links = [["b1", "b2"], ["b2", "b3"]] }
        [[client]]
        id = "steady"
        broker = "b1"
        publish = [{ every_s = 1, attributes = { a = 1 } }]
        [[client]]
        id = "sudden"
        broker = "b2"
        publish = [{ at_s = 50, until_s = 51, every_s = 0.02, attributes = { a = 1 } }]
        [[client]]
        id = "desk"
        broker = "b3"
        subscriptions = ["a = 1"]
    """
    demand = demand_of(parse_text(text, "burst"))
    assert dict(zip([each.broker for each in demand.origins], demand.rates(0), strict=True)) == {"b1": 1.0, "b2": 0.5}
