"""Which recovery a network file asks for."""

import pytest

from holdfast.network.load import parse_text
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
    ],
)
def test_the_scheme_and_its_record(settings: dict[str, object], expected: object) -> None:
    assert parse_text(TREE, settings=settings).reliability.guarantees.recovery == expected


def test_order_without_recovery_does_not_take_the_papers_scheme() -> None:
    settings = {"reliability.scheme": "srm", "reliability.order": "fifo"}
    assert parse_text(TREE, settings=settings).reliability.guarantees.recovery == RecoverySettings(asks=False)
