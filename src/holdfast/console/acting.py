"""What somebody with the right to act may do to a run: publish, subscribe, break things, mend them.

Clients of the console are clients of the run, so that its books and its trace know of all that they do.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

from holdfast.console.asking import text_of
from holdfast.console.board import Board
from holdfast.console.recent_events import shown
from holdfast.console.server import Answer
from holdfast.console.stream_view import StreamView
from holdfast.language.parser import parse
from holdfast.model.errors import InputError
from holdfast.model.validation import did_you_mean
from holdfast.net.live import LiveRun
from holdfast.network.schema import ClientSpec

_ARRIVALS_MAX = 50  # shown; the latest
_SUBSCRIPTIONS_MAX = 20  # of the console at one time
_PREFIX = "console-"


class RunActs:
    def __init__(self, live: LiveRun, board: Board, streams: StreamView) -> None:
        self._live = live
        self._board = board
        self._streams = streams
        self._clients: dict[str, str] = {}  # broker -> our client there
        self._joining = asyncio.Lock()  # so that of two who need it first, one waits for the other
        self._subscriptions: dict[str, dict[str, Any]] = {}  # by id
        self._arrivals: deque[dict[str, Any]] = deque(maxlen=_ARRIVALS_MAX)
        self._seen: set[tuple[str, int, str]] = set()
        self._number = 0

    def answers(self) -> dict[str, Answer]:
        return {
            "publish": self.publish,
            "subscribe": self.subscribe,
            "unsubscribe": self.unsubscribe,
            "kill": self.kill,
            "restart": self.restart,
            "link": self.set_link,
        }

    async def _client(self, broker: str) -> str:
        """Ours at this broker; it comes when it is first needed."""
        async with self._joining:
            if broker not in self._clients:
                spec = ClientSpec(f"{_PREFIX}{broker}", broker, advertisements=("TRUE",))
                await self._live.join(spec)
                self._clients[broker] = spec.id
        return self._clients[broker]

    def _broker(self, given: Mapping[str, Any], running: bool = True) -> str:
        broker = text_of(given, "broker")
        known = [*self._live.statuses()] if running else [*self._live.statuses(), *self._live.down]
        if broker not in known:
            hint = did_you_mean(broker, known) or f"there are {', '.join(sorted(known)[:8])}"
            raise InputError(f'there is no broker "{broker}"{" that runs" if running else ""}; {hint}')
        return broker

    async def publish(self, given: Mapping[str, Any]) -> dict[str, Any]:
        event = given.get("event")
        if not isinstance(event, dict) or not event:
            raise InputError('expected an event as a JSON object, such as {"price": 99.5}')
        client = await self._client(self._broker(given))
        self._live.publish(client, event)
        latest = next((each for each in self._streams.events.last(50) if each.source == client), None)
        return {"source": client, "seq": None if latest is None else latest.seq}

    async def subscribe(self, given: Mapping[str, Any]) -> dict[str, Any]:
        condition = str(parse(text_of(given, "condition")))
        if len(self._subscriptions) >= _SUBSCRIPTIONS_MAX:
            raise InputError(f"the console has {_SUBSCRIPTIONS_MAX} subscriptions; end one first")
        broker = self._broker(given)
        client = await self._client(broker)
        self._number += 1
        id_ = f"t{self._number}"
        self._live.subscribe(client, id_, condition)
        self._subscriptions[id_] = {"id": id_, "client": client, "broker": broker, "condition": condition}
        return self._subscriptions[id_]

    async def unsubscribe(self, given: Mapping[str, Any]) -> dict[str, Any]:
        id_ = text_of(given, "id")
        found = self._subscriptions.pop(id_, None)
        if found is None:
            raise InputError(f"the console has no subscription {id_}")
        self._live.unsubscribe(found["client"], id_)
        return {}

    async def kill(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """As kill -9 does."""
        self._live.crash(self._broker(given))
        return {}

    async def restart(self, given: Mapping[str, Any]) -> dict[str, Any]:
        broker = self._broker(given, running=False)
        if broker not in self._live.down:
            raise InputError(f"{broker} runs")
        if broker in self._live.standing:
            raise InputError(f"{broker} has been replaced by {self._live.standing[broker]}")
        self._live.restart(broker)
        return {}

    async def set_link(self, given: Mapping[str, Any]) -> dict[str, Any]:
        a, b, up = text_of(given, "a"), text_of(given, "b"), given.get("up")
        if not isinstance(up, bool):
            raise InputError("up is missing: true mends the link, false breaks it")
        if not any({each.a, each.b} == {a, b} for each in self._live.links):
            raise InputError(f"there is no link between {a} and {b}")
        self._live.set_link(a, b, up)
        return {}

    def show(self) -> None:
        """What has arrived for our subscriptions since the last time."""
        ours = {each["client"] for each in self._subscriptions.values()}
        for event in reversed(self._streams.events.last(500) if ours else []):
            for client in ours & event.arrivals.keys():
                key = event.source, event.seq, client
                if key not in self._seen:
                    self._seen.add(key)
                    arrival = event.arrivals[client]
                    ids = sorted(id_ for owner, id_ in event.matching if owner == client)
                    told = {"source": event.source, "seq": event.seq, "client": client, "subscriptions": ids}
                    told |= {"delay_ms": round((arrival.time_us - event.time_us) / 1e3, 1), "via": arrival.via}
                    self._arrivals.append(told | {"attributes": shown(event.attributes)})
        kept = {(event.source, event.seq) for event in self._streams.events.last(500)}
        self._seen = {key for key in self._seen if key[:2] in kept}
        tried = {"subscriptions": list(self._subscriptions.values()), "arrivals": list(self._arrivals)[::-1]}
        self._board.put("tried", tried)
