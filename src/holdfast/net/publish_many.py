"""Many events in one call, in order, with one limit on the time that they may take.

Those of a list are checked, encoded and handed over some at a time, without a coroutine and a call for each. Any other
iterable may make its events as it goes, and so does whoever reads from it: one by one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from holdfast.model.errors import InputError, MisuseError, TimedOutError
from holdfast.model.messages import AttributeValue
from holdfast.net.deadline import counted
from holdfast.wire.event_encoding import encoded_events

Event = Mapping[str, object]
Publish = Callable[[Event], Awaitable[int]]
PublishEncoded = Callable[[Sequence[Mapping[str, AttributeValue]], Sequence[bytes]], Awaitable[None]]

_TOGETHER = 128  # events: enough to hide the cost of a call, and together less than a frame if they are small


async def publish_many(
    publish: Publish, together: PublishEncoded | None, events: Iterable[Event], timeout: float | None, before: int = 0
) -> int:
    """How many were published, with those before; an error says how many, and names the one that is invalid."""
    count = before
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            if together is None or not isinstance(events, list | tuple):
                for event in events:
                    await publish(event)
                    count += 1
                return count
            for at in range(0, len(events), _TOGETHER):
                some = events[at : at + _TOGETHER]
                encoded = encoded_events(some)
                if encoded is not None:
                    await together(some, encoded)
                    count += len(some)
                    continue
                for event in some:
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
