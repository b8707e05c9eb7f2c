"""What a broker keeps for those who subscribe later."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from holdfast.language.parser import parse
from holdfast.language.problems import ConditionError
from holdfast.language.subscription import Subscription
from holdfast.model.errors import InputError
from holdfast.model.settings import Setting, Settings, setting
from holdfast.store.log import Retention


@dataclass(frozen=True)
class HistorySettings(Settings):
    folder: Annotated[Path, Setting("the folder where it keeps events for later subscribers; made if it is not there")]
    condition: str = setting("TRUE", "the condition on what it keeps", "whoever asks for the past names what they want")
    retention: Retention = setting(Retention(), "how much it keeps", "as declared there")

    def wanted(self) -> Subscription:
        try:
            return parse(self.condition)
        except ConditionError as problem:
            raise InputError(f"the condition of the history: {problem}") from None
