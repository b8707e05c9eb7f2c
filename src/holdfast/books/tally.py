"""Counts of messages, as both drivers keep them between two rows of the table `messages`."""

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """Messages of one kind at one node, or over one link."""

    sent: int = 0
    sent_bytes: int = 0
    lost: int = 0
    received: int = 0
