"""The frames of a session, counted in each direction, so that it can go on over another connection.

A connection delivers frames whole and in order until it breaks, so a frame needs no number on the wire: both ends
count. What was sent is kept until the other end says that it has it. When the connection breaks, each end tells how
far it got, and the other sends the rest again: nothing is lost, doubled or out of order. Frames are sent only
as long as what is kept stays within a window, so what piles up waits in the outbox, where its oldest events can be
dropped, and not here, where nothing can.
"""

from collections import deque

from holdfast.model.errors import PeerError

WINDOW_BYTES = 8 * 2**20  # sent and not acknowledged: 80 MB/s at a round-trip time of 100 ms
_ACK_FRAMES = 64  # acknowledged together: the signal costs less than a hundredth of them
_ACK_BYTES = 256 * 1024  # or as soon as so much has come: a small part of the window, so that it never closes for this


class SessionStream:
    def __init__(self, id_: int) -> None:
        self.id = id_
        self.received = 0  # frames
        self.sent = 0
        self.kept_bytes = 0
        self._kept: deque[bytes] = deque()  # sent and not acknowledged
        self._new_frames = 0  # received and not acknowledged
        self._new_bytes = 0

    # What we send --------------------------------------------------------------------------------

    @property
    def has_window(self) -> bool:
        return self.kept_bytes < WINDOW_BYTES

    def keep(self, frame: bytes) -> None:
        self.sent += 1
        self._kept.append(frame)
        self.kept_bytes += len(frame)

    def on_ack(self, received: int) -> None:
        """The other end has so many frames of ours."""
        kept = self._kept
        first = self.sent - len(kept)
        if not first <= received <= self.sent:
            raise PeerError(f"frame {received} is acknowledged, outside {first} to {self.sent}")
        for _ in range(received - first):
            self.kept_bytes -= len(kept.popleft())

    def has_kept(self, received: int) -> bool:
        """Whether all frames after so many can be sent again."""
        return self.sent - len(self._kept) <= received <= self.sent

    @property
    def kept(self) -> tuple[bytes, ...]:
        return tuple(self._kept)

    # What we get ---------------------------------------------------------------------------------

    def on_frame(self, size: int) -> bool:
        """A frame was handled; whether it is time to acknowledge."""
        self.received += 1
        self._new_frames += 1
        self._new_bytes += size
        return self._new_frames >= _ACK_FRAMES or self._new_bytes >= _ACK_BYTES

    def acknowledge(self) -> int:
        """How many frames to acknowledge."""
        self._new_frames = self._new_bytes = 0
        return self.received
