"""Fields that messages of several kinds have, with the limits that are checked when bytes are decoded."""

from typing import Annotated

from msgspec import Meta

from holdfast.model import limits

NodeName = Annotated[str, Meta(min_length=1, max_length=limits.NAME_CHARACTERS_MAX)]
NodeNames = Annotated[tuple[NodeName, ...], Meta(max_length=limits.NODES_MAX)]
Count = Annotated[int, Meta(ge=0, le=limits.TIME_US_MAX)]  # numbers that count up, and times
Digest = Annotated[int, Meta(ge=0)]  # 64 bits, which is what the wire holds
