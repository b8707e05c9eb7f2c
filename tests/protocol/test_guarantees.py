"""What an application may ask for beyond best effort: anything else is explained where it is said."""

import pytest

from holdfast.model.errors import InputError, MisuseError
from holdfast.protocol.order.settings import LatchSettings
from holdfast.protocol.settings import guarantees_of


@pytest.mark.parametrize("recovery", ["yes", None, 1, {}])
def test_recovery_that_is_neither_yes_nor_no_nor_settings_is_refused(recovery: object) -> None:
    with pytest.raises(InputError, match="it can be True, False"):
        guarantees_of(recovery, "none")  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"mode": "FIFO"}, {"estimator": "guess"}, {"late": "maybe"}, {"of": "some"}])
def test_a_latch_with_a_word_that_it_does_not_know_is_refused(wrong: dict[str, str]) -> None:
    (name,) = wrong
    with pytest.raises(MisuseError, match=f"{name} is"):
        LatchSettings(**wrong)  # type: ignore[arg-type]
