"""Calls with a `timeout`: done in time, or an error that says what became of what was not sent."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from holdfast.model.errors import InputError, TimedOutError

T = TypeVar("T")


def check_timeout(seconds: float | None) -> None:
    """An InputError when it is no number of seconds."""
    if seconds is None:
        return
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise InputError(f"timeout is {seconds!r}; it must be a number of seconds, 0 or more, or None for no limit")


def counted(events: int) -> str:
    return "1 event" if events == 1 else f"{events:,} events"


async def within(seconds: float | None, work: Coroutine[Any, Any, T], why: Callable[[], str]) -> T:
    """The result of the work; a TimedOutError with what `why` says when it takes longer."""
    try:
        check_timeout(seconds)
    except InputError:
        work.close()
        raise
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await work
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimedOutError(f"not done within {seconds:g} s: {why()}") from None
