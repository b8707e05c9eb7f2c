"""What may happen once some changes are safe.

By then a neighbour may have been forgotten and be back with another stream, whose numbers begin anew: what was said of
the earlier one does not hold for it.
"""

from holdfast.protocol.effects import Effect


class SafeThen:
    def __init__(self) -> None:
        # By neighbour: the stream, and the number in it.
        self.ack: dict[str, tuple[int, int]] = {}  # how far we have taken what it handed over
        self.kept: dict[str, tuple[int, int]] = {}  # how far what we have for it may be handed over
        self.effects: list[Effect] = []
