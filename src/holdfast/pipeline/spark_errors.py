"""Errors that come back through Spark, told as ours: bad input gets one clear line, anything else stays as it is.

What a task raises arrives as text inside an error of Spark's own, and so does a malformed row of a file.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.model.errors import InputError

_OURS = re.compile(
    r"holdfast\.[\w.]+\.(?:InputError|InvalidSubscriptionsError|ConditionError|MisuseError): "
    r"(.+?)(?=\n\n|\n\s*at |\n?\Z)",
    re.DOTALL,
)
# What Spark calls mistakes of the person who asked, and no bug of anyone's.
_MISTAKES = re.compile(
    r"\[(?:CANNOT_INFER|CANNOT_PARSE|COLUMN_ALREADY_EXISTS|DATA_SOURCE_NOT_FOUND|FAILED_READ_FILE|INVALID_FORMAT"
    r"|INVALID_JSON_RECORD_TYPE|MALFORMED|PARSE_SYNTAX_ERROR|PATH_NOT_FOUND|UNABLE_TO_INFER_SCHEMA"
    r"|UNSUPPORTED_DATA_?TYPE)[\w.]*\]\s*"
)
# What has no code: a source or file system that is not there, or what Python in a task says of its disk.
_FILES = re.compile(
    r"Failed to find data source: [^\n]+|No FileSystem for scheme \S+|Class \S+FileSystem not found"
    r"|\w*Error: \[Errno \d+\] [^\n]+"
)
_CAUSE = re.compile(r"\nCaused by: [\w.$]+: ([^\n]+)")
_WORDS_MAX = 400  # characters of Spark's message: the beginning says what, the rest is its plan


@contextmanager
def explained() -> Iterator[None]:
    try:
        yield
    except (InputError, ConnectionError):
        raise
    except OSError as problem:
        place = f"{problem.filename}"[:_WORDS_MAX] if problem.filename else "a file"
        raise InputError(f"{place}: {problem.strerror or problem}") from problem
    except Exception as error:  # Spark's own are of several families, and not all of one class
        why = reason(error)
        if why is None:
            raise
        raise InputError(why) from error


def reason(error: BaseException) -> str | None:
    """What the person did wrong, or None when this is not about that."""
    text = str(error)
    ours = _OURS.search(text)
    if ours:
        return ours[1].strip()
    found = [_sentence(text[at.end() :]) for at in _MISTAKES.finditer(text)]
    if "[FAILED_READ_FILE.NO_HINT]" in text and len(set(found)) == 1:
        found += [f"({cause})" for cause in _CAUSE.findall(text)[-1:]]
    found = found or [at[0] for at in _FILES.finditer(text)]
    return " ".join(dict.fromkeys(found))[:_WORDS_MAX] or None


def _sentence(words: str) -> str:
    """Spark's message without its advice, its code and its stack."""
    return " ".join(re.split(r"\n\s*at |SQLSTATE|JVM stacktrace|Parse Mode:", words)[0].split())
