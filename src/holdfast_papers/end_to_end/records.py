"""How likely a publication record reveals a loss (paper 000, section 3.1), as a closed form.

`match` is the probability that a publication of this source concerns the subscriber, `loss` that one on its way is
lost, `record` how many earlier publications each carries a record of. A loss is found when one of the next `record`
publications concerns the subscriber and arrives.
"""


def detection_probability(match: float, loss: float, record: int) -> float:
    """For one publisher and one subscriber (Eq. 1)."""
    return 1 - (1 - match * (1 - loss)) ** record
