"""Errors that come back through Spark, told as ours: bad input gets one clear line, anything else stays as it is.

What a task raises arrives as text inside an error of Spark's own, and so does a malformed row of a file.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.model.errors import InputError

_OURS = re.compile(
    r"holdfast\.[\w.]+\.(?:InputError|ConditionError|MisuseError): (.+?)(?=\n\n|\n\s*at |\n?\Z)", re.DOTALL
)
# What Spark calls mistakes of the person who asked, and no bug of anyone's.
_MISTAKES = re.compile(
    r"\[(?:CANNOT_INFER|CANNOT_PARSE|DATA_SOURCE_NOT_FOUND|FAILED_READ_FILE|INVALID_FORMAT|MALFORMED|PARSE_SYNTAX_ERROR"
    r"|PATH_NOT_FOUND|UNABLE_TO_INFER_SCHEMA|UNSUPPORTED_DATA_?TYPE)[\w.]*\]\s*"
)
_WORDS_MAX = 400  # characters of Spark's message: the beginning says what, the rest is its plan


@contextmanager
def explained() -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # Spark's own are of several families, and not all of one class
        told = reason(error)
        if told is None:
            raise
        raise InputError(told) from error


def reason(error: BaseException) -> str | None:
    """What the person did wrong, or None when this is not about that."""
    text = str(error)
    ours = _OURS.search(text)
    if ours:
        return ours[1].strip()
    found = [_sentence(text[at.end() :]) for at in _MISTAKES.finditer(text)]
    return " ".join(dict.fromkeys(found))[:_WORDS_MAX] or None


def _sentence(words: str) -> str:
    """Spark's message without its advice, its code and its stack."""
    return " ".join(re.split(r"\n\s*at |SQLSTATE|JVM stacktrace|Parse Mode:", words)[0].split())
