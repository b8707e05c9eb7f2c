"""What the two halves of recovery want done; the client does it."""

import msgspec

from holdfast.model.messages import Publication, Scalar


class Say(msgspec.Struct, frozen=True, gc=False):
    """Publish this to other clients."""

    attributes: dict[str, Scalar]
    payload: bytes


class Follow(msgspec.Struct, frozen=True):
    """Subscribe to what meets this condition, which is about control publications."""

    condition: str


class Unfollow(msgspec.Struct, frozen=True):
    condition: str


class Recovered(msgspec.Struct, frozen=True, gc=False):
    """Here is a publication that was lost."""

    publication: Publication


class Unrecoverable(msgspec.Struct, frozen=True):
    """These numbers of a source will not come any more."""

    source: str
    first: int
    last: int
    reason: str


class State(msgspec.Struct, frozen=True):
    """State how far we have published, for those who get our events over links that lose nothing."""


Wish = State | Say | Follow | Unfollow | Recovered | Unrecoverable
