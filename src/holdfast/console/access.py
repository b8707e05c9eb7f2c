"""Who may look, who may act: hosts, origins, tokens and sessions of the console.

On the loopback interface whoever is on this machine may look. Beyond it, and to act anywhere, a page needs a session,
which it gets for the token that was printed at the start, or for a token that the keys of `--token-keys` have signed.
No page of another origin gets in: the Host of a request must be the console's own, so that no name of somebody else's
leads here (DNS rebinding), and a browser's Origin, where it says one, must be the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hmac import compare_digest
from ipaddress import ip_address
from secrets import token_urlsafe
from time import monotonic
from urllib.parse import urlsplit

from holdfast.model.errors import PeerError
from holdfast.trust.token import TokenKeys

SESSION_S = 12 * 3600.0  # a working day; then the page asks for the token again
_SESSIONS_MAX = 64  # browsers; the oldest has to come again
_TRIES_MAX = 20  # wrong tokens in a minute, of everybody together: a token has 190 bits, this keeps the log short
_TRIES_S = 60.0


class RequestRefused(Exception):
    """A request that gets nothing, with the code of HTTP for why."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


@dataclass(frozen=True)
class Rights:
    reads: bool
    acts: bool


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class ConsoleAccess:
    def __init__(
        self,
        host: str,
        acts: bool,
        keys: TokenKeys | None = None,
        now_s: Callable[[], float] = monotonic,
    ) -> None:
        self.token = token_urlsafe(24)
        self.port = 0  # once it listens
        self._host = host
        self.acts = acts
        self._keys = keys
        self._now_s = now_s
        self._sessions: dict[str, float] = {}  # until when; the oldest first
        self._failures: list[float] = []

    @property
    def open_to_read(self) -> bool:
        return is_loopback(self._host)

    @property
    def cookie(self) -> str:
        """Cookies know no ports: two consoles on one host must not share one."""
        return f"holdfast-console-{self.port}"

    # Requests ------------------------------------------------------------------------------------

    def check(self, method: str, headers: Mapping[str, str]) -> None:
        """Raise RequestRefused for a request that does not come from the console's own page, or from a plain client."""
        host = headers.get("Host", "")
        if not self._is_ours(host):
            raise RequestRefused(421, f"{host[:100]!r} is not a name of this console")
        origin = headers.get("Origin")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            raise RequestRefused(403, "a page of another origin may not ask")
        if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            raise RequestRefused(403, "a page of another site may not ask")
        if method not in ("GET", "HEAD"):
            if origin is None:
                raise RequestRefused(403, "a request that changes something has to say its Origin")
            if headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
                raise RequestRefused(415, "expected application/json")

    def _is_ours(self, host: str) -> bool:
        try:
            parts = urlsplit(f"//{host}")
            name, port = parts.hostname or "", parts.port or 80
        except ValueError:
            return False
        if port != self.port:
            return False
        if self.open_to_read:
            return is_loopback(name)
        if name == self._host.lower() or is_loopback(name):
            return True
        try:
            ip_address(name)  # nobody else's name leads to a bare address
        except ValueError:
            return False
        return True

    def rights(self, cookies: Mapping[str, str]) -> Rights:
        session = self._has_session(cookies.get(self.cookie, ""))
        return Rights(self.open_to_read or session, self.acts and session)

    def _has_session(self, given: str) -> bool:
        now_s = self._now_s()
        for each in [each for each, until_s in self._sessions.items() if until_s < now_s]:
            del self._sessions[each]
        return any(compare_digest(each.encode(), given.encode()) for each in self._sessions)

    # Sessions ------------------------------------------------------------------------------------

    def open_session(self, token: str) -> str:
        """The value of the cookie for whoever has the right token; raises RequestRefused for another."""
        now_s = self._now_s()
        self._failures = [at_s for at_s in self._failures if at_s > now_s - _TRIES_S]
        if len(self._failures) >= _TRIES_MAX:
            raise RequestRefused(429, "too many wrong tokens; try again in a minute")
        if not self._is_right(token):
            self._failures.append(now_s)
            raise RequestRefused(403, "this token is not valid")
        if len(self._sessions) >= _SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        session = token_urlsafe(32)
        self._sessions[session] = now_s + SESSION_S
        return session

    def _is_right(self, token: str) -> bool:
        if compare_digest(token.encode(), self.token.encode()):
            return True
        if self._keys is None:
            return False
        try:
            self._keys.identity_untrusted(token)
        except PeerError:
            return False
        return True
