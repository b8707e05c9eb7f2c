"""The console of brokers that run by themselves: it asks each for its status, or looks at the one that it lives in.

Brokers know counts and queues, and not what was owed to whom: what needs the books of a run is left out, and the page
says so.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from errno import ECONNREFUSED
from time import time
from typing import Any

import aiohttp

from holdfast.console.access import ConsoleAccess
from holdfast.console.asking import explained
from holdfast.console.network_view import BrokerStatus, Look
from holdfast.console.server import ConsoleServer
from holdfast.console.serving import Console
from holdfast.model.errors import InputError
from holdfast.net.address import Address
from holdfast.net.node import BrokerNode
from holdfast.net.status import status_of
from holdfast.trust.token import TokenKeys

_ANSWER_S = 3.0  # a broker that does not answer within this is shown as down; it is asked again
_STATUS_BYTES_MAX = 4 * 2**20  # a broker with a thousand peers takes half a megabyte
_BROKERS_MAX = 1_000

Statuses = tuple[Mapping[str, BrokerStatus], Mapping[str, str]]  # of those who answer, and why others do not


class StatusPoller:
    """Asks each address for /status, all at once, and tells when one stops to answer or answers again."""

    def __init__(self, addresses: Sequence[str], tell: Callable[[str], None]) -> None:
        if len(addresses) > _BROKERS_MAX:
            raise InputError(f"{len(addresses):,} brokers; one console asks {_BROKERS_MAX:,} at most")
        self._urls = {f"http://{each.removeprefix('http://').rstrip('/')}/status": each for each in addresses}
        self._names: dict[str, str] = {}  # by address, once it has told it
        self._tell = tell
        self._silent: set[str] = set()  # addresses of those who did not answer when last asked
        self._session: aiohttp.ClientSession | None = None

    async def statuses(self) -> Statuses:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=_ANSWER_S)
            self._session = aiohttp.ClientSession(timeout=timeout)
        found, down = dict[str, BrokerStatus](), dict[str, str]()
        for url, answer in zip(self._urls, await asyncio.gather(*map(self._ask, self._urls)), strict=True):
            address = self._urls[url]
            self._note(address, answer)
            if isinstance(answer, str):
                down[self._names.get(address, address)] = answer
            else:
                self._names[address] = str(answer["broker"])
                found[self._names[address]] = answer
        return found, down

    def _note(self, address: str, answer: BrokerStatus | str) -> None:
        if isinstance(answer, str) and address not in self._silent:
            self._silent.add(address)
            self._tell(f"{address} {answer}")
        elif not isinstance(answer, str) and address in self._silent:
            self._silent.discard(address)
            self._tell(f"{address} answers")

    async def _ask(self, url: str) -> BrokerStatus | str:
        assert self._session is not None
        try:
            async with self._session.get(url, allow_redirects=False) as answer:
                small = answer.status == 200 and (answer.content_length or _STATUS_BYTES_MAX) < _STATUS_BYTES_MAX
                status = await answer.json() if small else None
        except (aiohttp.ClientError, TimeoutError, ValueError, OSError) as problem:
            refused = isinstance(problem, aiohttp.ClientConnectorError) and problem.errno == ECONNREFUSED
            words = "connection refused; is it the --metrics place of a broker that runs?" if refused else problem
            return f"does not answer: {words or type(problem).__name__}"
        if not isinstance(status, dict) or not isinstance(status.get("broker"), str) or "time_s" not in status:
            return "answers, but not with a status; is it the --metrics place of a broker?"
        return status

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


class BrokerConsole:
    def __init__(self, place: Address, source: StatusPoller | BrokerNode, keys: TokenKeys | None = None) -> None:
        self._place = place
        self._source = source
        self._keys = keys
        self._console = Console()

    async def start(self) -> ConsoleServer:
        source = self._source
        name = source.settings.name if isinstance(source, BrokerNode) else "brokers"
        about: dict[str, Any] = {"name": name, "kind": "brokers", "views": ["map", "streams", "ask"]}
        access = ConsoleAccess(self._place.host, acts=False, keys=self._keys)
        return await self._console.serve(self._place, access, about, self._look, self._show, {"explain": _explain})

    async def _look(self) -> Look:
        if isinstance(self._source, BrokerNode):
            status = status_of(self._source)
            return Look(round(time(), 1), {status.broker: status.details()})
        statuses, down = await self._source.statuses()
        return Look(round(time(), 1), statuses, down)

    def _show(self, passed_s: float) -> None:
        """What brokers count, added up; incidents by kind."""
        board = self._console.board
        brokers = [entry for entry in map(board.get, board.keys("broker/")) if entry is not None and "sent" in entry]
        total = {
            name: round(sum(each[name] for each in brokers), 2) for name in ("received", "sent", "lost", "dropped")
        }
        total["clients"] = sum(each["clients"] for each in brokers)
        board.put("traffic", total)
        self._console.history.put("traffic", total)

    async def stop(self) -> None:
        await self._console.stop()
        if isinstance(self._source, StatusPoller):
            await self._source.close()


async def _explain(given: Mapping[str, Any]) -> dict[str, Any]:
    return explained(given)
