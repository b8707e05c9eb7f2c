"""A request for a lost publication, routed by its content like any other (paper 000, section 3.2).

The requester has not the event, only its entry, and so publishes the entry: a Bloom filter as the attributes b7, b15
and so on for its bits, a columnar entry as q_price and so on for its codes. Whoever can answer subscribes to requests
that its own pattern covers. Both name the codebook, because other books give bits and codes another meaning.
"""

from holdfast.language.constraint import Constraint
from holdfast.language.subscription import Subscription
from holdfast.model.limits import ATTRIBUTES_MAX
from holdfast.model.values import Value
from holdfast.protocol.records.digest import Codebook, Entry

KIND = "reliability-message"
REQUEST = "request"
BOOK = "record-book"

_CONTROL_ATTRIBUTES = 16  # left for what else a request says: whom, which numbers, when


def request_attributes(book: Codebook, entry: Entry) -> dict[str, Value] | None:
    """What a request for this entry carries; None when it is too much for one event: ask the publisher then."""
    attributes = book.request_attributes(entry)
    if len(attributes) > ATTRIBUTES_MAX - _CONTROL_ATTRIBUTES:
        return None
    return {KIND: REQUEST, BOOK: book.id, **attributes}


def request_conditions(book: Codebook, subscription: Subscription) -> list[str]:
    """What to subscribe to, so as to hear every request for an event that the subscription matches."""
    head = f"{Constraint(KIND, '=', REQUEST)} AND {Constraint(BOOK, '=', book.id)}"
    tests = book.request_condition(book.pattern(subscription))
    return [f"{head} AND {test}" if test else head for test in tests]
