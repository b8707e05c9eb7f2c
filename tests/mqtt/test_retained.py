"""The last event of each topic: who wins, what is found, and what happens when there is no more room."""

import pytest

from holdfast.model.messages import Publication
from holdfast.mqtt import retained
from holdfast.mqtt.retained import Retained
from holdfast.mqtt.topics import matches


def event(time_us: int, payload: bytes = b"x") -> Publication:
    return Publication("p", time_us, time_us, None, {}, payload)


def found(kept: Retained, filter_: str) -> dict[str, int]:
    search, all_ = kept.search(filter_), dict[str, int]()
    while not search.is_over:
        all_ |= {topic: each.time_us for topic, each in search.look(now_us=0)}
    return all_


def test_the_event_published_last_stays_in_whatever_order_they_come() -> None:
    kept = Retained()
    assert kept.put("a", event(2)) and not kept.put("a", event(1)) and kept.put("a", event(3))
    assert found(kept, "a") == {"a": 3} and found(kept, "+") == {"a": 3} and found(kept, "b") == {}


def test_a_search_leaves_out_what_has_changed_since_it_began() -> None:
    kept = Retained()
    for topic in "abcd":
        kept.put(topic, event(1))
    search = kept.search("#")
    kept.put("b", event(2))
    kept.put("c", event(2, b""))
    kept.put("new", event(2))
    assert [topic for topic, _ in search.look(now_us=0)] == ["a", "d"]
    assert found(kept, "#") == {"a": 1, "b": 2, "d": 1, "new": 2} and len(kept) == 4


def test_freed_topics_make_room_the_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained, "TOPICS_MAX", 3)
    kept = Retained()
    for topic in "abc":
        kept.put(topic, event(1))
    assert not kept.put("d", event(2)) and kept.refused == 1
    for topic in "ab":
        kept.put(topic, event(2, b""))
    assert kept.put("d", event(3)) and found(kept, "#") == {"c": 1, "d": 3}
    assert not kept.put("b", event(1)), "b was freed later, which is still known"
    assert kept.put("b", event(4)) and not kept.put("a", event(5)) and len(kept) == 3


def test_bytes_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained, "BYTES_MAX", 10_000)
    kept = Retained()
    for time_us in range(1, 50):
        assert kept.put(f"t/{time_us}", event(time_us, b"x" * 8_000)), time_us
        assert not kept.put("other", event(time_us, b"x" * 8_000))
        assert kept.put(f"t/{time_us}", event(time_us + 1, b""))


@pytest.mark.parametrize("filter_", ["none/+", "a/7"])
def test_a_search_looks_at_a_few_topics_at_a_time(monkeypatch: pytest.MonkeyPatch, filter_: str) -> None:
    looked: list[str] = []

    def counted(filter_: str, topic: str) -> bool:
        looked.append(topic)
        return matches(filter_, topic)

    monkeypatch.setattr("holdfast.mqtt.retained.matches", counted)
    kept = Retained()
    for number in range(3 * retained.LOOK_MAX):
        kept.put(f"a/{number}", event(1))
    search = kept.search(filter_)
    search.look(now_us=0)
    assert len(looked) == (1 if filter_ == "a/7" else retained.LOOK_MAX)
