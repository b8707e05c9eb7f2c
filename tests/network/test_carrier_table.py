"""A file with `[carrier]`: the bus is its one broker, and what brokers alone have is refused in words."""

import pytest

from holdfast.network.load import parse_text
from holdfast.network.problems import NetworkError

CLIENTS = """
[[client]]
id = "p"
publish = [{every_s = 0.1, attributes = {site = "north", temp = 31}}]
[[client]]
id = "s"
subscriptions = ["temp > 30"]
"""


def test_clients_of_a_bus_are_attached_to_it_without_saying_so():
    network = parse_text('[carrier]\nbus = "mqtt"\nlanes = "plant.{site}"\n' + CLIENTS)
    assert [each.id for each in network.brokers] == ["bus"]
    assert {each.broker for each in network.clients} == {"bus"}
    assert network.carrier is not None
    assert network.carrier.bus == "mqtt"
    assert not network.links


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[carrier]\n[topology]\nbrokers = 3\n", "the bus in the place of brokers"),
        ("[carrier]\n[replication]\n", "no brokers and links"),
        ('[carrier]\n[reliability]\nhops = "nack"\n', "a bus has none of it"),
        ('routing = "destinations"\n[carrier]\n', "a bus routes by lanes"),
        ('[carrier]\nlanes = "plant.{site"\n', "plant.{site"),
        ('[carrier]\nbus = "redis"\naddress = "nats://127.0.0.1:4222"\n', "no address of redis"),
        ("[carrier]\nup_loss = 1.5\n", "from 0 to 1"),
        ('[carrier]\nbuss = "nats"\n', "bus"),
        ('[carrier]\n[[fault]]\nkind = "partition"\nat_s = 1\nbrokers = ["bus"]\n', "no links between brokers"),
    ],
)
def test_what_does_not_go_with_a_bus_is_told(text: str, words: str):
    with pytest.raises(NetworkError, match=words.replace("{", r"\{").replace("[", r"\[")):
        parse_text(text + CLIENTS)


def test_without_a_carrier_a_client_needs_a_broker():
    with pytest.raises(NetworkError, match='"broker" is missing'):
        parse_text("[topology]\nbrokers = 1\n" + CLIENTS)
