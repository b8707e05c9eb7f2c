"""How likely a publication record reveals a loss (paper 000, section 3.1), as closed forms.

`match` is the probability that a publication of this source concerns the subscriber, `loss` that one on its way is
lost, `record` how many earlier publications each carries a record of. A loss is found when one of the next `record`
publications concerns the subscriber and arrives.
"""

from collections.abc import Iterable


def detection_probability(match: float, loss: float, record: int) -> float:
    """For one publisher and one subscriber (Eq. 1)."""
    return 1 - (1 - match * (1 - loss)) ** record


def mean_detection(matches: Iterable[float], loss: float, record: int) -> float:
    """Of a random lost delivery: who receives more also loses more, so each pair counts by its match probability."""
    weighted = total = 0.0
    for match in matches:
        weighted += match * detection_probability(match, loss, record)
        total += match
    return weighted / total if total else 0.0


def mean_detection_even(highest: float, loss: float, record: int) -> float:
    """The same for match probabilities spread evenly between 0 and `highest`.

    The integral of 2w/h² · (1 - (1 - aw)^R) over w from 0 to h, with a = 1 - loss.
    """
    arriving = 1 - loss
    if highest == 0 or arriving == 0:
        return 0.0
    left = 1 - arriving * highest
    whole = (1 - left ** (record + 1)) / (record + 1) - (1 - left ** (record + 2)) / (record + 2)
    return 1 - 2 * whole / (arriving * highest) ** 2


def shared_detection_probability(match: float, loss: float, record: int, others: int, overlap: float = 0.5) -> float:
    """When `others` lost the same publication: that at least one of them all finds out (Fig. 2b).

    `overlap` is the probability that another one is also interested in what interests the first. What is lost is lost
    for each of them independently, and their interests are independent given the publication.
    """
    elsewhere = (match - overlap * match) / (1 - match) if match < 1 else 0.0
    nobody = match * loss * ((1 - overlap) + overlap * loss) ** others
    nobody += (1 - match) * ((1 - elsewhere) + elsewhere * loss) ** others
    return 1 - nobody**record


def spurious_per_loss(match: float, loss: float, false_positive: float) -> float:
    """How many losses that are none an encoding reports for each real one."""
    return (1 - match) * false_positive / (match * loss)
