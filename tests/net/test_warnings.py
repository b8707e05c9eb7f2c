"""What is allowed and probably not meant is a warning, said once and at the line of the application."""

import warnings
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

import holdfast
from holdfast.model import warn_once
from tests.net.harness import lab, live


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(warn_once, "_warned", set())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@live
async def test_a_subscription_that_can_never_match_is_warned_of_once() -> None:
    async with lab() as net:
        client = await net.client(await net.broker("b1"))
        with pytest.warns(holdfast.HoldfastWarning) as told:
            client.subscribe("x > 5 AND x < 3")
            client.subscribe("x > 5 AND x < 3")
            client.subscribe("y = 1 OR x > 5 AND x < 3")
        assert [str(each.message) for each in told] == [
            "subscription to 'x > 5 AND x < 3': never true: x > 5 AND x < 3; this subscription can never match",
            "subscription to 'y = 1 OR x > 5 AND x < 3': never true: x > 5 AND x < 3",
        ]
        assert {each.filename for each in told} == {__file__}
        client.subscribe("x > 5")


@live
async def test_a_timestamp_without_a_time_zone_is_warned_of_once() -> None:
    async with lab() as net:
        client = await net.client(await net.broker("b1"))
        wanted = client.subscribe("TRUE")
        await client.publish({"at": datetime(2026, 1, 31, tzinfo=UTC)})
        with pytest.warns(holdfast.HoldfastWarning, match="taken as UTC") as told:
            await client.publish({"desk": {"at": datetime(2026, 1, 31)}})
            await client.publish({"at": datetime(2026, 2, 1)})
        assert [each.filename for each in told] == [__file__]
        assert [(await anext(wanted)).event["at"].tzinfo, (await anext(wanted)).event["desk.at"].tzinfo] == [UTC, UTC]


def test_the_sync_client_warns_at_the_line_of_its_caller() -> None:
    with holdfast.SyncBroker() as broker, holdfast.connect_sync(broker.address) as client:
        with pytest.warns(holdfast.HoldfastWarning, match="can never match") as told:
            client.subscribe("FALSE")
        assert [each.filename for each in told] == [__file__]


def test_what_was_said_is_remembered_within_bounds() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(warn_once._WARNED_MAX + 1):
            warn_once.warn_once(str(number))
    assert len(warn_once._warned) == 1
