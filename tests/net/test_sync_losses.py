"""What the client without `async` may have missed, read with the names of the other one."""

from time import sleep

import pytest

import holdfast


def test_losses_are_counted_taken_and_waited_for_also_when_the_client_is_closed() -> None:
    with holdfast.SyncBroker() as broker:
        client = holdfast.connect_sync(broker.address)
        unread = client.subscribe("n > 0", queue_max=1)
        losses = client.losses()
        assert (len(losses), losses.take(), losses.dropped) == (0, [], 0)
        with pytest.raises(TimeoutError):
            losses.next(timeout=0.01)
        client.publish_many({"n": n} for n in range(1, 4))
        first = losses.next(timeout=60)
        assert "too slow" in first.reason and first.events in (1, 2)  # what came at once is one loss
        client.publish_many({"n": n} for n in range(4, 6))
        assert "too slow" in next(iter(losses)).reason
        client.publish({"n": 6})
        client.flush()
        while unread.dropped < 5:
            sleep(0.01)
        client.close()
        left = client.losses().take()
        assert (len(losses), list(losses)) == (0, []) and sum(each.events for each in left) >= 1


def test_connect_sync_takes_the_arguments_of_connect_and_says_so() -> None:
    from inspect import signature

    assert signature(holdfast.connect_sync).parameters == signature(holdfast.connect).parameters
    assert signature(holdfast.connect_sync).return_annotation is holdfast.SyncClient
    with pytest.raises(TypeError, match="unexpected keyword argument 'privat_key'"):
        holdfast.connect_sync("tcp://127.0.0.1:1", privat_key="file.pem")  # type: ignore[call-arg]
