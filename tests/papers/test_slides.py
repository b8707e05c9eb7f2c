"""What the slides of paper 004 make of disjoint paths and of availability."""

import pytest

from holdfast.planner.components import Component
from holdfast.planner.disjoint_paths import disjoint_bound
from holdfast_papers.prediction import slides
from tests.planner.networks import drawn


def test_the_slides_bound_is_none_because_the_ends_are_shared() -> None:
    graph = drawn(10, 1, 0.9, 0.95)
    ends = graph.brokers[2].availability * graph.brokers[7].availability
    bound = disjoint_bound(graph, 2, 7)
    assert slides.multipath(graph, bound.paths) > ends  # nothing can be, when both ends count
    assert bound.reliability * ends < ends


def test_the_slides_availability_is_the_share_of_the_time_down() -> None:
    component = Component(up_s=59_400.0, down_s=600.0)
    assert component.availability == pytest.approx(0.99)
    assert slides.availability(component) == pytest.approx(0.01)
