"""Which recovery a network file asks for."""

import pytest

from holdfast.network.load import parse_text
from holdfast.network.problems import NetworkError
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.recovery.srm.settings import SrmSettings
from tests.network.examples import TREE

ON = {"reliability.recovery": "end-to-end"}
SRM = {**ON, "reliability.scheme": "srm"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, None),
        (ON, RecoverySettings()),
        ({**ON, "reliability.record": 3}, RecoverySettings(record=3)),
        ({"reliability.scheme": "srm"}, None),  # recovery itself is off
        (SRM, SrmSettings()),  # the paper's ten entries
        ({**SRM, "reliability.record": 3}, SrmSettings(record=3)),
        ({**SRM, "reliability.record": 0}, SrmSettings(record=0)),
        ({**SRM, "reliability.publisher_cache": True}, SrmSettings(publisher_cache=True)),
        (
            {**SRM, "reliability.srm_request_wait": 0.5, "reliability.srm_adaptive": False},
            SrmSettings(request_wait=0.5, adaptive=False),
        ),
        (
            {**SRM, "reliability.srm_kept_max": 46, "reliability.srm_hit_ratio": 0.9},
            SrmSettings(kept_max=46, hit_ratio=0.9),
        ),
        ({**SRM, "reliability.srm_soft_state_s": 0.5}, SrmSettings(soft_state_us=500_000)),
    ],
)
def test_the_scheme_and_its_record(settings: dict[str, object], expected: object) -> None:
    assert parse_text(TREE, settings=settings).reliability.guarantees.recovery == expected


def test_order_without_recovery_does_not_take_the_papers_scheme() -> None:
    settings = {"reliability.scheme": "srm", "reliability.order": "fifo"}
    assert parse_text(TREE, settings=settings).reliability.guarantees.recovery == RecoverySettings(asks=False)


def test_a_share_of_all_events_may_be_out_of_order_as_in_paper_002() -> None:
    settings = {"reliability.order": "fifo", "reliability.order_of": "all"}
    order = parse_text(TREE, settings=settings).reliability.guarantees.order
    assert order is not None and order.of == "all"


def test_caches_of_srm_begin_within_their_bounds() -> None:
    with pytest.raises(NetworkError, match="must lie between kept_min and kept_max, found 5"):
        parse_text(TREE, settings={**SRM, "reliability.srm_kept_max": 4, "reliability.srm_kept_min": 1})
