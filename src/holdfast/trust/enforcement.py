"""The rights in force at a broker: who its clients are, and what each of them may do.

`protocol.guard` asks about every event and every subscription of a client; a client that nobody has let in may nothing.
Who has gone is forgotten some time, and nobody else: names cost nothing, so anybody may come under thousands of them.
"""

from collections.abc import Callable

from holdfast.language.explanation import explain
from holdfast.language.parser import parse
from holdfast.language.subscription import Subscription, filter_text, holds
from holdfast.model.event import RESERVED, SIGNATURE, Attributes
from holdfast.trust.identity import Principal
from holdfast.trust.rights import Right, RightsFile

_CLIENTS_MAX = 20_000  # remembered: as many as may be connected and away; then those that are neither are forgotten
_LOOKS_MAX = 10  # at clients that came first, with each that comes: more are forgotten than come, if they have gone
_NOTHING = Right(Subscription(()), Subscription(()), False, False)
_EVERYTHING = Right(parse("TRUE"), parse("TRUE"), False, True)


class RightsInForce:
    def __init__(self, file: RightsFile, is_here: Callable[[str], bool] = lambda client: True) -> None:
        """`is_here` says whether a client is connected, or away with a session."""
        self._file = file
        self._is_here = is_here
        self._identities: dict[str, Principal] = {}  # by client
        self._rights: dict[str, Right] = {}

    def set(self, client: str, identity: Principal) -> None:
        """A client was let in."""
        self._identities.pop(client, None)
        self._identities[client] = identity
        self._rights[client] = self._of_identity(identity)
        for _ in range(min(_LOOKS_MAX, len(self._identities) - _CLIENTS_MAX)):
            first = next(iter(self._identities))
            its = self._identities.pop(first)
            if first == client or self._is_here(first):
                self._identities[first] = its
            else:
                del self._rights[first]

    def change(self, file: RightsFile) -> list[str]:
        """Other rights are in force now; the clients that these concern."""
        self._file, before = file, self._rights
        self._rights = {client: self._of_identity(identity) for client, identity in self._identities.items()}
        return [client for client, right in self._rights.items() if right != before[client]]

    def _of_identity(self, identity: Principal) -> Right:
        return _EVERYTHING if identity.is_broker_itself else self._file.of(identity)

    # What a broker asks --------------------------------------------------------------------------

    def why_not(self, client: str, attributes: Attributes) -> str:
        allowed = self._of(client).publish
        if any(name.startswith(RESERVED) and name != SIGNATURE for name in attributes):
            return f"the names of attributes do not begin with {RESERVED}"
        if any(holds(each, attributes) for each in allowed.filters):
            return ""
        found = explain(allowed, attributes)
        if found.filter is None:
            return "it may publish nothing"
        stopped = "; ".join(f"{each.constraint}: {each.why}" for each in found.obstacles)
        return f"it may publish {filter_text(found.filter)}, but {stopped}"

    def may_see(self, client: str, attributes: Attributes) -> bool:
        return any(holds(each, attributes) for each in self._of(client).subscribe.filters)

    def sees_digests(self, client: str) -> bool:
        return self._of(client).sees_digests

    def admitted(self, client: str, wanted: Subscription) -> Subscription:
        return self._of(client).admitted(wanted)

    def _of(self, client: str) -> Right:
        return self._rights.get(client, _NOTHING)
