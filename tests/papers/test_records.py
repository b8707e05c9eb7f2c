"""How likely a publication record reveals a loss, against values worked out by hand and by a sum."""

from math import comb, isclose

from holdfast_papers.end_to_end.records import detection_probability, shared_detection_probability


def test_a_loss_is_found_when_a_later_publication_concerns_the_subscriber_and_arrives() -> None:
    assert detection_probability(match=1, loss=0, record=1) == 1
    assert detection_probability(match=0.5, loss=0.5, record=1) == 0.25
    assert detection_probability(match=0.5, loss=0, record=2) == 0.75
    assert detection_probability(match=0.5, loss=0.3, record=0) == 0


def test_eq_1_gives_the_values_that_the_paper_prints() -> None:
    assert round(detection_probability(match=0.05, loss=0.01, record=10), 3) == 0.398
    assert round(detection_probability(match=0.001, loss=0.01, record=10), 4) == 0.0099


def test_eq_1_is_the_sum_over_how_many_of_the_later_publications_matched() -> None:
    match, loss, record = 0.07, 0.04, 12
    found = sum(comb(record, n) * match**n * (1 - match) ** (record - n) * (1 - loss**n) for n in range(record + 1))
    assert isclose(found, detection_probability(match, loss, record))


def test_a_shared_loss_is_found_more_often_the_more_nodes_share_it() -> None:
    """Worked out apart from the code, for 2, 3 and 5 nodes."""
    found = [round(shared_detection_probability(0.01, 0.01, 10, others), 3) for others in (1, 2, 4)]
    assert found == [0.139, 0.182, 0.260]
    found = [round(shared_detection_probability(0.05, 0.01, 10, others), 3) for others in (1, 2, 4)]
    assert found == [0.539, 0.646, 0.792]


def test_a_loss_that_nobody_shares_is_that_of_eq_1() -> None:
    assert isclose(shared_detection_probability(0.05, 0.01, 10, 0), detection_probability(0.05, 0.01, 10))
