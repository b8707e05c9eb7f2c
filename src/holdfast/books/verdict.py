"""What a judge says about one promise. Both judges, the cheap one here and the one on Spark, answer with it."""

from dataclasses import dataclass
from typing import Any

EXAMPLES_MAX = 5  # of one broken promise: enough to see a pattern, and to look them up


@dataclass(frozen=True)
class Verdict:
    promise: str
    holds: bool
    checked: int
    broken: int
    examples: tuple[dict[str, Any], ...] = ()
    note: str = ""  # why it holds although something was found, or why nothing was checked

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"holds": self.holds, "checked": self.checked, "broken": self.broken}
        found["examples"] = list(self.examples)
        return {**found, "note": self.note} if self.note else found
