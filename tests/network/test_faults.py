"""What happens when: `for_s` ends by itself, partitions cut links, and replaced links leave a tree a tree."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.network.graph import a_cycle, components, distances, neighbours_of
from holdfast.network.load import parse_text
from holdfast.network.schema import Fault
from tests.network.examples import TREE


def faults(*entries: dict[str, Any], **more: Any) -> tuple[Fault, ...]:
    return parse_text(TREE | {"clients": {}, "fault": list(entries)} | more).faults


def test_a_crash_for_a_while_ends_with_a_restart() -> None:
    assert faults({"at_s": 1, "kind": "crash", "broker": "b2", "for_s": 2.5}) == (
        Fault(1_000_000, "crash", broker="b2"),
        Fault(3_500_000, "restart", broker="b2"),
    )


def test_what_would_begin_when_the_run_is_over_never_happens_and_what_began_before_ends() -> None:
    found = faults(
        {"at_s": 4, "kind": "crash", "broker": "b2", "for_s": 3},
        {"at_s": 5, "kind": "crash", "broker": "b3"},
        duration_s=5,
    )
    assert [(each.at_us, each.kind) for each in found] == [(4_000_000, "crash"), (7_000_000, "restart")]


def test_faults_come_in_the_order_of_time() -> None:
    found = faults(
        {"at_s": 5, "kind": "crash", "broker": "b2"},
        {"at_s": 1, "kind": "link-down", "link": ["b2", "b1"], "for_s": 6},
        {"at_s": 6, "kind": "restart", "broker": "b2"},
    )
    assert [(each.at_us, each.kind) for each in found] == [
        (1_000_000, "link-down"),
        (5_000_000, "crash"),
        (6_000_000, "restart"),
        (7_000_000, "link-up"),
    ]
    assert found[0].link == found[3].link == ("b1", "b2")  # as the network has it


def test_a_partition_cuts_the_links_between_the_two_sides() -> None:
    # b1 has the children b2 to b5, b2 has b6 to b8
    found = faults({"at_s": 1, "kind": "partition", "brokers": ["b2", "b6"], "for_s": 1})
    assert [(each.kind, each.link) for each in found] == [
        ("link-down", ("b1", "b2")),
        ("link-down", ("b2", "b7")),
        ("link-down", ("b2", "b8")),
        ("link-up", ("b1", "b2")),
        ("link-up", ("b2", "b7")),
        ("link-up", ("b2", "b8")),
    ]


def test_clients_leave_move_and_change_their_minds() -> None:
    assert faults(
        {"at_s": 1, "kind": "client-detach", "client": "c3", "for_s": 1},
        {"at_s": 3, "kind": "client-attach", "client": "c3", "broker": "b9"},
        {"at_s": 4, "kind": "subscribe", "client": "c3", "condition": "x = 1"},
        {"at_s": 5, "kind": "subscribe", "client": "c3", "condition": "x = 2", "id": "mine"},
        {"at_s": 6, "kind": "unsubscribe", "client": "c3", "id": "mine"},
    ) == (
        Fault(1_000_000, "client-detach", client="c3"),
        Fault(2_000_000, "client-attach", broker="b3", client="c3"),
        Fault(3_000_000, "client-attach", broker="b9", client="c3"),
        Fault(4_000_000, "subscribe", client="c3", subscription="f2", condition="x = 1"),
        Fault(5_000_000, "subscribe", client="c3", subscription="mine", condition="x = 2"),
        Fault(6_000_000, "unsubscribe", client="c3", subscription="mine"),
    )


def test_a_replaced_link_appears_somewhere_else_and_joins_the_same_halves() -> None:
    network = parse_text(TREE | {"fault": [{"at_s": 1, "kind": "link-replace", "link": ["b2", "b1"]}]})
    (fault,) = network.timeline()
    assert (fault.link, fault.after_us) == (("b1", "b2"), 100_000)
    assert fault.to is not None and set(fault.to) != {"b1", "b2"}
    assert len({"b2", "b6", "b7", "b8"} & set(fault.to)) == 1


def test_a_tree_keeps_its_shape_while_its_links_are_replaced() -> None:
    """A hundred brokers are 5.6 links apart on average. With ends drawn from all brokers it is 12 after 3 s."""
    network = parse_text(
        {
            "duration_s": 7,
            "topology": {"kind": "tree", "brokers": 100, "degree": 4},
            "reconfiguration": {"every_s": 0.03, "repair_s": 0.1},
        }
    )
    links = {(link.a, link.b) for link in network.links}
    for fault in network.timeline():
        assert fault.link is not None and fault.to is not None
        links = links - {fault.link, fault.link[::-1]} | {fault.to}
    near = neighbours_of((each.id for each in network.brokers), links)
    far = [distance for each in near for distance in distances(near, each).values()]
    assert sum(far) / len(far) < 7.5


def test_a_replacement_may_be_spelled_out() -> None:
    entry = {"at_s": 1, "kind": "link-replace", "link": ["b1", "b2"], "to": ["b3", "b6"], "after_s": 2}
    (fault,) = parse_text(TREE | {"fault": [entry]}).timeline()
    assert (fault.to, fault.after_us) == (("b3", "b6"), 2_000_000)


@given(st.integers(2, 40), st.integers(0, 1_000), st.sampled_from([0.03, 0.2, 1.0]), st.sampled_from([2, 4]))
def test_after_every_repair_a_tree_is_a_tree_again(brokers: int, seed: int, every_s: float, degree: int) -> None:
    network = parse_text(
        {
            "duration_s": 5,
            "seed": seed,
            "topology": {"kind": "tree", "brokers": brokers, "degree": degree},
            "reconfiguration": {"every_s": every_s, "repair_s": 0.1},
        }
    )
    happened = list(network.timeline())
    assert all(b.at_us - a.at_us >= every_s * 1_000_000 for a, b in pairwise(happened))
    standing = {(link.a, link.b) for link in network.links}
    pending: list[tuple[int, tuple[str, str]]] = []
    for fault in happened:
        assert fault.link is not None and fault.to is not None
        arrived = [link for due_us, link in pending if due_us <= fault.at_us]
        standing.update(arrived)
        pending = [(due_us, link) for due_us, link in pending if due_us > fault.at_us]
        standing.remove(fault.link)  # only what stands can break
        pending.append((fault.at_us + fault.after_us, fault.to))
        graph = neighbours_of((each.id for each in network.brokers), [*standing, *(link for _, link in pending)])
        assert len(components(graph)) == 1 and a_cycle(graph) == []
        assert max(map(len, graph.values())) <= max(degree, 2)
        assert set(fault.link) != set(fault.to) or brokers == 2


def test_links_break_all_through_the_window() -> None:
    file = TREE | {"duration_s": 25, "reconfiguration": {"every_s": 0.2}}
    times = [fault.at_us for fault in parse_text(file).timeline()]
    assert times[:2] == [1_200_000, 1_400_000] and 23_700_000 < times[-1] < 24_000_000
    assert len(times) == 114


def test_another_seed_breaks_other_links() -> None:
    network = parse_text(TREE | {"reconfiguration": {"every_s": 1}})
    assert list(network.timeline(1)) == list(network.timeline())
    assert list(network.timeline(2)) != list(network.timeline(1))


def test_a_graph_with_cycles_keeps_its_links_too() -> None:
    network = parse_text(
        {
            "routing": "destinations",
            "topology": {"kind": "random", "brokers": 12},
            "reconfiguration": {"every_s": 1},
        }
    )
    links = {frozenset((link.a, link.b)) for link in network.links}
    for fault in network.timeline():
        assert fault.link is not None and fault.to is not None
        links.remove(frozenset(fault.link))
        assert frozenset(fault.to) not in links
        links.add(frozenset(fault.to))
    assert len(links) == 24


@pytest.mark.parametrize("kind", ["line", "tree"])
def test_there_is_nothing_to_replace_in_a_network_of_one(kind: str) -> None:
    one = {"topology": {"kind": kind, "brokers": 1}, "reconfiguration": {"every_s": 1}}
    assert list(parse_text(one).timeline()) == []
