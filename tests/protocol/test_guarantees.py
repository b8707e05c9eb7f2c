"""What an application may ask for beyond best effort: anything else is explained where it is said."""

from dataclasses import fields

import pytest

from holdfast.model.errors import InputError
from holdfast.protocol.order.settings import LatchSettings
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.recovery.srm.settings import SrmSettings
from holdfast.protocol.settings import guarantees_of


@pytest.mark.parametrize("recovery", ["yes", None, 1, {}])
def test_recovery_that_is_neither_yes_nor_no_nor_settings_is_refused(recovery: object) -> None:
    with pytest.raises(InputError, match="it can be True, False"):
        guarantees_of(recovery, "none")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [RecoverySettings, SrmSettings, LatchSettings])
def test_settings_of_another_type_are_all_named(kind: type) -> None:
    """Whatever the setting: a list is neither a number nor a word nor settings within settings."""
    names = [each.name for each in fields(kind)]
    with pytest.raises(InputError) as caught:
        kind(**{name: [] for name in names})
    assert [each.split()[0] for each in str(caught.value).split("; ") if each.split()[0] in names] == names


@pytest.mark.parametrize("target", [0.5, 1, 7.0, float("inf")])
def test_a_share_of_violations_is_below_a_half_also_as_a_whole_number(target: float) -> None:
    with pytest.raises(InputError, match="target must be"):
        LatchSettings(target=target)


@pytest.mark.parametrize("value", [True, 0.5, "400", float("nan"), -1, 0])
def test_a_time_is_a_whole_number_above_zero(value: object) -> None:
    with pytest.raises(InputError, match="digest_us must be"):
        RecoverySettings(digest_us=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"mode": "FIFO"}, {"estimator": "guess"}, {"late": "maybe"}, {"of": "some"}])
def test_a_latch_with_a_word_that_it_does_not_know_is_refused(wrong: dict[str, str]) -> None:
    (name,) = wrong
    with pytest.raises(InputError, match=f"{name} is"):
        LatchSettings(**wrong)  # type: ignore[arg-type]
