"""Events too large for a message of the bus, or for its headers, and misspelt addresses and spaces."""

import asyncio

import pytest

import holdfast
from holdfast.carriers.addresses import features_of
from holdfast.carriers.json_body import json_message, read_json_untrusted
from holdfast.carriers.memory import MemoryBus
from holdfast.carriers.servers import SERVERS
from holdfast.model.errors import InputError
from holdfast.model.messages import Publication
from tests.carriers.riding import BEST_EFFORT, STRICT, client, numbers, taken

MOST = 1024 * 1024  # of a message


@pytest.mark.parametrize(("body", "size"), [("native", MOST - 100), ("json", MOST * 3 // 4)])
def test_an_event_that_the_bus_cannot_carry_is_refused_and_holds_up_nobody(body, size):
    async def story():
        bus = MemoryBus()
        async with client(bus, "sub", STRICT, "", body) as sub, client(bus, "pub", STRICT, "", body) as pub:
            mine = sub.subscribe("n >= 0")
            await sub.flush()
            await pub.publish({"n": 0}, b"x" * (size - 2_000))
            with pytest.raises(InputError, match=r"the bus 1,048,576 in a message; store larger data elsewhere"):
                await pub.publish({"n": 1}, b"x" * size)
            await pub.publish({"n": 2})
            return await taken(mine, 2), sub.losses().take()

    came, lost = asyncio.run(story())
    assert numbers(came) == [0, 2]
    assert not lost


def test_a_large_payload_travels_beside_the_attributes_where_headers_could_not_hold_it():
    """MQTT refuses a user property of 64 KiB; RabbitMQ closes a connection for headers beyond 128 KiB."""
    event = Publication("pub", 1, 5, None, {"n": 1}, b"x" * 100_000, b"")
    message = json_message(("plant",), event, 1, has_headers=True)
    assert sum(map(len, message.headers.values())) < 4_096
    found = read_json_untrusted(message)
    assert found.publication.payload == event.payload
    assert found.publication.attributes == event.attributes


def test_a_large_payload_comes_at_best_effort_where_nothing_repairs_it():
    async def story():
        bus = MemoryBus()
        async with (
            client(bus, "sub", BEST_EFFORT, "", "json") as sub,
            client(bus, "pub", BEST_EFFORT, "", "json") as pub,
        ):
            mine = sub.subscribe("n >= 0")
            await sub.flush()
            await pub.publish({"n": 0}, b"x" * 200_000)
            return await taken(mine, 1)

    assert [each.payload for each in asyncio.run(story())] == [b"x" * 200_000]


@pytest.mark.parametrize(
    ("address", "wrong", "said"),
    [
        ("natz://127.0.0.1:4222", {"space": "plant"}, "'natz://127.0.0.1:4222' is not an address"),
        ("tcp://127.0.0.1:7001", {"space": "plant"}, "are for a bus, such as nats://127.0.0.1:4222"),
        ("nats://127.0.0.1:4222", {"space": "a b"}, "space 'a b': 'a b' may have letters, digits, _ and - only"),
        ("nats://127.0.0.1:4222", {"lanes": "plant.{site"}, "lanes 'plant.{site': '{site' is neither a word"),
    ],
)
def test_what_is_misspelt_is_named(address, wrong, said):
    with pytest.raises(InputError) as problem:
        holdfast.connect(address, **wrong)
    assert said in str(problem.value)


def test_a_bus_is_known_by_its_name_in_a_file_and_by_its_scheme():
    assert all(features_of(bus).module == bus for bus in SERVERS)
    assert features_of("amqps") == features_of("rabbitmq")
    with pytest.raises(InputError, match="there are nats, mqtt, redis, rabbitmq, zenoh, stomp"):
        features_of("kafka")
