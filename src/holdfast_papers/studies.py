"""Which studies there are, in the order of the papers."""

from holdfast_papers.end_to_end import experiment as end_to_end
from holdfast_papers.fifo import experiment as fifo
from holdfast_papers.gossip import experiment as gossip
from holdfast_papers.prediction import experiment as prediction
from holdfast_papers.replication import experiment as replication
from holdfast_papers.study import Study

_ALL = (end_to_end.STUDY, gossip.STUDY, fifo.STUDY, replication.STUDY, prediction.STUDY)
STUDIES: dict[str, Study] = {each.name: each for each in _ALL}
