"""Which studies there are, in the order of the papers."""

from holdfast.reproduce import fifo
from holdfast.reproduce.end_to_end import experiment as end_to_end
from holdfast.reproduce.gossip import experiment as gossip
from holdfast.reproduce.prediction import experiment as prediction
from holdfast.reproduce.replication import experiment as replication
from holdfast.reproduce.study import Study

_ALL = (end_to_end.STUDY, gossip.STUDY, fifo.STUDY, replication.STUDY, prediction.STUDY)
STUDIES: dict[str, Study] = {each.name: each for each in _ALL}
