"""What drivers and machines both know of groups."""

HOMES = "group:"  # what the names of homes begin with: no client has such a name
HANDED_MAX = 256  # events that a member may have and not be done with, and in one message to it
GROUP_CHARACTERS_MAX = 128  # of a group's name: it stands in logs


def group_subscriber(group: str, condition: str) -> str:
    """Who gets events of a group, to the books of a run: one subscriber, whichever member an event goes to."""
    return f"{HOMES}{group} {condition}"
