"""Which studies there are, in the order of the papers."""

from holdfast.reproduce import end_to_end, fifo, gossip, prediction
from holdfast.reproduce.study import Study

_ALL = (end_to_end.STUDY, gossip.STUDY, fifo.STUDY, prediction.STUDY)
STUDIES: dict[str, Study] = {each.name: each for each in _ALL}
