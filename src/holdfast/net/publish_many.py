"""Many events in one call, in order, with one limit on the time that they may take."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from holdfast.model.errors import InputError, MisuseError, TimedOutError
from holdfast.net.deadline import counted

Event = Mapping[str, object]
Publish = Callable[[Event], Awaitable[int]]


async def publish_many(publish: Publish, events: Iterable[Event], timeout: float | None, before: int = 0) -> int:
    """How many were published, with those before; an error says how many, and names the one that is invalid."""
    count = before
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            for event in events:
                await publish(event)
                count += 1
    except InputError as problem:
        raise InputError(f"event {count}: {problem}; {_sent(count)}, the others were not") from None
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimedOutError(f"not done in time: {_sent(count)}, the others were not and will not be") from None
    return count


def check_events(events: Iterable[Event]) -> None:
    if isinstance(events, Mapping | str) or not isinstance(events, Iterable):
        raise MisuseError(f"publish_many takes several events, such as a list of dicts, not {type(events).__name__}")


def _sent(count: int) -> str:
    return f"{counted(count)} {'was' if count == 1 else 'were'} sent"
