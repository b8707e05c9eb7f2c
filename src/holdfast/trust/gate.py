"""Who is let in as whom.

A node says in its greeting what it is and how it is called. It proves that with the certificate of its TLS connection,
with the key that brokers share, or with a token. What counts as proof follows from the files that a broker was given:
a broker without an authority, a key, and keys for tokens knows nobody, and believes everybody. That is for one machine.

A broker proves itself by a certificate for the broker of its name, or for its name alone if we dial a peer of that
name; otherwise by the shared key. A client does by a certificate for its name, or by a token. A client that proves
nothing is anonymous: it is let in where that has a right, and where there are neither rights nor keys for tokens.
"""

from collections.abc import Container
from dataclasses import dataclass

from holdfast.model.errors import PeerError
from holdfast.model.messages import NodeKind
from holdfast.trust.certificate import Certificate, certified
from holdfast.trust.identity import ANONYMOUS, Principal, is_nobodys, may_be_called
from holdfast.trust.rights import RightsFile, read_rights
from holdfast.trust.settings import TrustSettings
from holdfast.trust.shared_key import SharedKeys, read_keys
from holdfast.trust.token import TokenKeys, read_token_keys


@dataclass(frozen=True)
class Credentials:
    """What somebody says of itself, with its proofs."""

    node: str
    kind: NodeKind
    certificate: Certificate
    token: str
    proof: bytes  # by the shared key
    about: tuple[bytes, ...]  # what that is about: both challenges, and what it says of itself
    called: str = ""  # the name that it has to prove, where that is not the node's: a client of MQTT has another


class NotTrustedError(PeerError):
    """Somebody cannot prove that it is what it says."""


class Gate:
    def __init__(self, settings: TrustSettings, authority: bool) -> None:
        """With an authority, certificates of its signing are asked for on TLS connections."""
        self._settings = settings
        self._authority = authority
        self._keys: SharedKeys | None
        self._tokens: TokenKeys | None
        self.rights: RightsFile | None
        self.read()

    def read(self) -> None:
        """Read all files again; an InputError when one cannot be used, and then nothing has changed."""
        of = self._settings
        keys = None if of.broker_key is None else read_keys(of.broker_key)
        tokens = None if of.token_keys is None else read_token_keys(of.token_keys)
        rights = None if of.rights is None else read_rights(of.rights)
        self._keys, self._tokens, self.rights = keys, tokens, rights

    @property
    def knows_brokers(self) -> bool:
        """Whether brokers have to prove that they are brokers."""
        return self._authority or self._keys is not None

    @property
    def knows_clients(self) -> bool:
        """Whether clients can prove who they are, or need a right."""
        return self._authority or self._tokens is not None or self.rights is not None

    @property
    def takes_tokens(self) -> bool:
        return self._tokens is not None

    def asks_for_proof(self, given: Credentials) -> bool:
        """Whether it could prove itself with the shared key, and has not yet."""
        if given.kind != "broker" or self._keys is None or given.proof:
            return False
        return not (given.certificate and certified(given.certificate).says_broker)

    def proof(self, about: tuple[bytes, ...]) -> bytes:
        """Ours; empty where there is no key."""
        return b"" if self._keys is None else self._keys.proof(about)

    # Who dials us --------------------------------------------------------------------------------

    def identity(self, given: Credentials, peers: Container[str]) -> Principal:
        """Who somebody is that has dialled us; a NotTrustedError when it is not what it says."""
        return self._broker(given, peers) if given.kind == "broker" else self._client(given, peers)

    def _broker(self, given: Credentials, peers: Container[str]) -> Principal:
        shown = certified(given.certificate)
        if self._authority and given.certificate:
            found = shown.identity("broker", given.node)
            if found is not None and (shown.says_broker or given.node in peers):
                return found
            if found is None:
                raise NotTrustedError(f"its certificate is for {shown}, not for the broker {given.node}")
        if self._keys is not None:
            if self._keys.proves(given.proof, given.about):
                return Principal(given.node)
            raise NotTrustedError(f"it does not prove that it is the broker {given.node}: it has no key, or another")
        if self._authority:
            raise NotTrustedError(
                f"it does not prove that {given.node} is a broker: its certificate needs the URI "
                f"holdfast:broker:{given.node}, or {given.node} a place among our peers"
            )
        return Principal(given.node)

    def _client(self, given: Credentials, peers: Container[str]) -> Principal:
        if given.node in peers:
            raise NotTrustedError(f"{given.node} is a broker, and not a client")
        called = given.called or given.node
        if self._authority and given.certificate:
            shown = certified(given.certificate)
            found = shown.identity("client", called)
            if found is None:
                raise NotTrustedError(f"its certificate is for {shown}, not for the client {called}")
            return self._with_right(found)
        if self._tokens is not None and given.token:
            try:
                found = self._tokens.identity_untrusted(given.token)
            except PeerError as problem:
                raise NotTrustedError(str(problem)) from None
            if not may_be_called(found.name, called):
                raise NotTrustedError(f"its token is for {found.name}, not for {called}")
            return self._with_right(found)
        if self._tokens is not None and self.rights is None:
            raise NotTrustedError("it has no token; write --token FILE, token= in Python")
        if self.knows_clients and not is_nobodys(called):
            raise NotTrustedError(
                f"it does not prove that it is {called}; a client without certificate and token is called "
                "anonymous.NAME, or has no name"
            )
        return self._with_right(ANONYMOUS)

    def _with_right(self, identity: Principal) -> Principal:
        if self.rights is not None and not self.rights.has_any(identity):
            who = identity.name or "a client without certificate and token"
            raise NotTrustedError(f"{who} has no right here")
        return identity

    # Whom we dial --------------------------------------------------------------------------------

    def check_dialled(self, given: Credentials) -> None:
        """That a broker that we have dialled is what it says; a NotTrustedError when it is not."""
        if self._authority and given.certificate:
            shown = certified(given.certificate)
            if shown.identity("broker", given.node) is None:
                raise NotTrustedError(f"its certificate is for {shown}, not for the broker {given.node}")
            return
        if self._keys is not None and not self._keys.proves(given.proof, given.about):
            raise NotTrustedError(f"it does not prove that it is the broker {given.node}: it has no key, or another")
