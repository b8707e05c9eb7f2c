"""Tables on both ends of a link: when the whole of one is sent again, and when not."""

import pytest

from holdfast.model.messages import Tell
from holdfast.protocol.tables import Heard, Told

PATIENCE_US = 500_000


def told(count: int) -> tuple[Told, list[Tell]]:
    """A table that has grown to so many conditions, one change each, all at time 0."""
    table = Told("subscriptions", 1)
    changes = [table.change([f"x = {number}"], (), 0) for number in range(count)]
    return table, [each for each in changes if each is not None]


@pytest.mark.parametrize(("count", "sent_again"), [(20, True), (2_000, False)])
def test_a_large_table_is_not_sent_again_to_who_is_seen_to_read_on(count: int, sent_again: bool) -> None:
    table, changes = told(count)
    listener = Heard()
    for number in range(1, 4):  # it gets on by five changes from one heartbeat to the next
        for each in changes[5 * (number - 1) : 5 * number]:
            listener.on_tell(each)
        whole = table.on_heard(*listener.summary, 1_000_000 * number, PATIENCE_US)
        assert (whole is not None) is sent_again


def test_a_large_table_is_sent_again_to_who_stops_reading() -> None:
    table, changes = told(2_000)
    listener = Heard()
    for each in changes[:5]:
        listener.on_tell(each)
    assert table.on_heard(*listener.summary, 1_000_000, PATIENCE_US) is None
    assert table.on_heard(*listener.summary, 2_000_000, PATIENCE_US) is not None


def test_a_change_that_was_lost_lately_is_noticed_at_once_however_large_the_table() -> None:
    table, changes = told(2_000)
    listener = Heard()
    for each in (*changes[:-10], *changes[-9:-5]):
        listener.on_tell(each)
    assert table.on_heard(*listener.summary, 1, PATIENCE_US) is not None
