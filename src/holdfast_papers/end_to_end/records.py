"""How likely a publication record reveals a loss (paper 000, section 3.5), as closed forms.

`match` is the probability that a publication of this source concerns the subscriber, `loss` that one on its way is
lost, `record` how many earlier publications each carries a record of. A loss is found when one of the next `record`
publications concerns the subscriber and arrives.
"""


def detection_probability(match: float, loss: float, record: int) -> float:
    """For one publisher and one subscriber (Eq. 1)."""
    return 1 - (1 - match * (1 - loss)) ** record


def shared_detection_probability(match: float, loss: float, record: int, others: int, overlap: float = 0.5) -> float:
    """That at least one of several subscribers finds a loss that all of them share (Fig. 2b).

    The paper gives no formula. Here each of the others matches a publication that matches the first with probability
    `overlap`, independently, and matches as often as the first in all.
    """
    beside = match * (1 - overlap) / (1 - match)  # that one of the others matches what the first does not
    with_first = match * loss * ((1 - overlap) + overlap * loss) ** others
    without = (1 - match) * ((1 - beside) + beside * loss) ** others
    return 1 - (with_first + without) ** record
