"""Which studies there are."""

from holdfast.reproduce import end_to_end, fifo, gossip
from holdfast.reproduce.study import Study

STUDIES: dict[str, Study] = {each.name: each for each in (end_to_end.STUDY, fifo.STUDY, gossip.STUDY)}
