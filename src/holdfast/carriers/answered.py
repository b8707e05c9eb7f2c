"""A call to somebody else's library, of which nothing is certain: neither that it ends, nor what it raises."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from holdfast.model.errors import TransportError


async def answered(call: Coroutine[Any, Any, None], limit_s: float, where: str) -> None:
    """Until it returns; a TransportError for whatever else becomes of it.

    It has a task of its own: libraries raise CancelledError for connections that are gone, which would end the caller.
    """
    task = asyncio.create_task(call)
    try:
        done, _ = await asyncio.wait([task], timeout=limit_s)
    finally:
        task.cancel()
    if not done:
        raise TransportError(f"{where}: no answer within {limit_s:g} s")
    if task.cancelled():
        raise TransportError(f"{where}: the connection was given up")
    problem = task.exception()
    if isinstance(problem, TransportError):
        raise problem
    if problem is not None:
        raise TransportError(f"{where}: {problem!r}") from problem
