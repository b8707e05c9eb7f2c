"""Events of one source, one after the other, that are to leave in one message: a run.

Each comes encoded, so that a value that cannot be sent is found where it was published; the message is then the bytes
that are there already, behind the numbers and times.
"""

from holdfast.wire.codec import RUN_HEAD, array_head, encode_message

EVENT_BYTES = 23  # what an event takes besides attributes and payload: its number, its time and a length, at most
_NO_HOPS = b"\0"


class RunWriter:
    """Who writes it adds to the lists, one value for each event, and keeps count of the size."""

    def __init__(self, source: str, first_seq: int) -> None:
        self._source = source
        self._first_seq = first_seq
        self.times_us: list[int] = []
        self.attributes: list[bytes] = []
        self.payloads: list[bytes] = []
        self.size = 0

    def __len__(self) -> int:
        return len(self.times_us)

    def message(self) -> bytes:
        """All of them, encoded."""
        seqs = list(range(self._first_seq, self._first_seq + len(self)))
        numbers = map(encode_message, (seqs, self._source, self.times_us))
        payloads = encode_message(self.payloads if any(self.payloads) else ())
        return b"".join((RUN_HEAD, *numbers, array_head(len(self)), *self.attributes, payloads, _NO_HOPS))
