"""Who the clients are, where they sit, and what is spelled out for them."""

from collections import Counter

from holdfast.network.load import parse_text
from holdfast.network.schema import SubscriptionSpec
from holdfast.network.workload.publication import ScheduledEvent
from tests.network.examples import FULL, TREE


def test_each_broker_gets_so_many_clients() -> None:
    clients = parse_text(TREE | {"clients": {"per_broker": 3}}).clients
    assert [client.id for client in clients] == [f"c{number}" for number in range(1, 31)]
    assert [client.broker for client in clients[:4]] == ["b1", "b1", "b1", "b2"]


def test_a_number_of_clients_is_dealt_out_in_turn() -> None:
    clients = parse_text(TREE | {"clients": {"count": 12, "prefix": "x"}}).clients
    assert Counter(client.broker for client in clients)["b1"] == 2
    assert clients[11].id == "x12" and clients[11].broker == "b2"


def test_some_publish_and_the_others_subscribe() -> None:
    file = TREE | {"clients": {"publishers": 3, "subscribers": "others"}, "workload": {"kind": "stock"}}
    clients = parse_text(file).clients
    assert sum(client.publishes for client in clients) == 3
    assert all(client.publishes != bool(client.subscriptions) for client in clients)


def test_a_group_of_clients_is_numbered() -> None:
    file = TREE | {"client": [{"id": "desk", "broker": "b2", "count": 3, "subscriptions": ["x = 1"]}]}
    clients = parse_text(file).clients
    assert [(client.id, client.broker) for client in clients] == [("desk-1", "b2"), ("desk-2", "b2"), ("desk-3", "b2")]
    assert all(client.subscriptions == (SubscriptionSpec("s1", "x = 1"),) for client in clients)


def test_subscriptions_may_begin_and_end() -> None:
    (desk,) = [client for client in parse_text(FULL).clients if client.id == "desk"]
    assert desk.subscriptions == (
        SubscriptionSpec("s1", "p1 = TRUE"),
        SubscriptionSpec("late", "x > 3", 5_000_000, 9_000_000),
    )


def test_what_is_spelled_out_is_published_when_it_says() -> None:
    own = [each for each in parse_text(FULL).publications() if each.client == "desk"]
    once = ScheduledEvent(2_000_000, "desk", {"x": 5, "home.team": "Yankees"}, 0, 1_000_000)
    often = [ScheduledEvent(at * 1_000_000, "desk", {"x": 1}, 0, None) for at in (0, 4, 8, 12)]
    assert own == sorted([once, *often], key=lambda each: each.at_us)


def test_own_and_drawn_publications_are_merged_in_the_order_of_time() -> None:
    times = [each.at_us for each in parse_text(FULL).publications()]
    assert times == sorted(times) and len(times) > 500


def test_a_client_may_have_its_own_part_and_the_workloads() -> None:
    client = {
        "id": "x",
        "broker": "b1",
        "subscriptions": ["a = 1", {"condition": "b = 1", "id": "s3"}],
        "publish": [{"attributes": {"a": 1}}],
        "publishes": True,
        "subscribes": True,
    }
    network = parse_text(TREE | {"workload": {"kind": "patterns"}, "client": [client]})
    (found,) = network.clients
    assert [each.id for each in found.subscriptions] == ["s1", "s3", "s2", "s4"]
    assert found.advertisements == ("TRUE",)
    drawn = list(network.publications())
    assert drawn[0].attributes == {"a": 1} and len(drawn) > 100


def test_two_publications_at_one_moment_keep_the_order_of_the_file() -> None:
    publish = [{"at_s": 1, "attributes": {"n": number}} for number in range(5)]
    network = parse_text(TREE | {"client": [{"id": "x", "broker": "b1", "publish": publish}]})
    assert [each.attributes["n"] for each in network.publications()] == [0, 1, 2, 3, 4]


def test_each_publication_has_attributes_of_its_own() -> None:
    publish = [{"every_s": 1, "attributes": {"n": 1}}]
    one, other, *_ = parse_text(TREE | {"client": [{"id": "x", "broker": "b1", "publish": publish}]}).publications()
    one.attributes["n"] = 2
    assert other.attributes["n"] == 1


def test_without_a_workload_clients_are_just_there() -> None:
    clients = parse_text(TREE | {"clients": {}}).clients
    assert len(clients) == 10 and not any(client.publishes or client.subscriptions for client in clients)


def test_a_client_may_say_what_it_advertises() -> None:
    client = {"id": "x", "broker": "b1", "advertisements": ["a > 0"], "publish": [{"attributes": {"a": 1}}]}
    assert parse_text(TREE | {"client": [client]}).clients[0].advertisements == ("a > 0",)
