"""What is wrong with a condition, told so that it can be mended: all problems at once, each with its
line, column, a caret under the place, what was expected and, where we can guess, a suggestion.
"""

from dataclasses import dataclass

from holdfast.model.errors import InputError

_SHOWN_CHARACTERS_MAX = 100  # of the offending line; a caret under a longer line would wrap


@dataclass(frozen=True)
class ConditionProblem:
    start: int  # offset of the first offending character
    length: int
    expected: str
    suggestion: str = ""

    def place(self, text: str) -> tuple[int, int]:
        """Line and column, both counted from 1."""
        line = text.count("\n", 0, self.start) + 1
        return line, self.start - text.rfind("\n", 0, self.start)

    def show(self, text: str) -> str:
        line, column = self.place(text)
        begin = self.start - column + 1
        end = text.find("\n", begin)
        shown = text[begin : end if end >= 0 else len(text)]
        caret = column - 1
        if len(shown) > _SHOWN_CHARACTERS_MAX:
            cut = max(0, caret - _SHOWN_CHARACTERS_MAX // 2)
            shown, caret = shown[cut : cut + _SHOWN_CHARACTERS_MAX], caret - cut
        # A tab stays a tab in the caret line, so that the caret stands under its character.
        lead = "".join("\t" if c == "\t" else " " for c in shown[:caret]).ljust(caret)
        carets = "^" * max(1, min(self.length, len(shown) - caret))
        lines = [f"line {line}, column {column}: {self.expected}", f"  {shown}", f"  {lead}{carets}"]
        if self.suggestion:
            lines.append(f"  {self.suggestion}")
        return "\n".join(lines)


class ConditionError(InputError):
    """A condition that is not accepted, with all its problems."""

    def __init__(self, text: str, problems: list[ConditionProblem]) -> None:
        self.text = text
        self.problems = tuple(sorted(problems, key=lambda problem: problem.start))
        super().__init__("\n".join(problem.show(text) for problem in self.problems))

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process boundaries (Spark tasks); the default would rebuild from the message alone.
        return ConditionError, (self.text, list(self.problems))
