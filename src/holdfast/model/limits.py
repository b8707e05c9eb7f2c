"""How large a message may be. What is past a limit is refused: by the caller's call, or as bytes from outside."""

FRAME_BYTES_MAX = 16 * 2**20  # a whole table of 200,000 conditions fits; what one peer can make us hold at once
MESSAGES_BYTES_MAX = 2**16  # of a frame of several messages, which are handled in one go; nodes make none larger
PAYLOAD_BYTES_MAX = 2**20  # larger things belong in a store, with their address in the event
ATTRIBUTES_BYTES_MAX = 2**18  # of one event, encoded: all 256 of a kilobyte each; every broker on the way reads them
# Of what recovering clients send each other: a repair holds an event of the largest size as its payload, and 64 KiB.
REPAIR_BYTES_MAX = PAYLOAD_BYTES_MAX + ATTRIBUTES_BYTES_MAX + 2**16
RECORD_BYTES_MAX = 2**16  # what a publication tells of earlier ones: a thousandth of this is usual
ATTRIBUTES_MAX = 256  # per event: wide tables have 100 columns
LIST_ELEMENTS_MAX = 256  # of a list in an event: tags are 10, sizes 30; matching looks each of them up
NAME_CHARACTERS_MAX = 255  # of attributes and nodes: what file systems and databases allow for a name
CONDITIONS_MAX = 200_000  # per message: at 80 bytes each they fill a frame
CONDITIONS_BYTES_AIM = 48 * 1024  # of a table in one message: fits a datagram, and is read within 50 ms; one goes alone
PARTS_MAX = 2**16  # of a table: a gigabyte of conditions at the size above
LINK_STATE_BYTES_MAX = 12 * 2**20  # of the conditions in one: the message has to fit in a frame
CONDITION_CHARACTERS_MAX = 65_536  # what the language accepts (language/limits.py)
NODES_MAX = 4_096  # that one message may name: homes of an event, neighbours of a broker
TIME_US_MAX = 2**62  # a time and a lifetime still add up within 64 bits
BATCH_BYTES_MAX = 2**17  # of a frame that is a batch of several events: twice what a publisher makes of unsigned ones
BATCH_EVENTS_MAX = 4_096  # in one message: ten times what fits in a frame of the usual size
HOPS_MAX = 2**16  # far beyond any path; keeps the counter within a small integer
MISSING_MAX = 4_096  # numbers in one request of a link: more than any link keeps to send once more
GOSSIP_NUMBERS_MAX = 65_536  # events that one message of epidemic recovery may name: a full buffer, several times
