"""Which studies there are, in the order of the papers."""

from holdfast.reproduce import end_to_end, fifo, gossip, prediction, replication
from holdfast.reproduce.study import Study

_ALL = (end_to_end.STUDY, gossip.STUDY, fifo.STUDY, replication.STUDY, prediction.STUDY)
STUDIES: dict[str, Study] = {each.name: each for each in _ALL}
