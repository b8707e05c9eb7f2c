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
from holdfast.trust.identity import ANONYMOUS, Identity, is_nobodys, may_be_called
from holdfast.trust.rights import RightsFile, read_rights
from holdfast.trust.settings import TrustSettings
from holdfast.trust.shared_key import SharedKeys, read_keys
from holdfast.trust.token import TokenKeys, read_token_keys


@dataclass(frozen=True)
class Claim:
    """What somebody says of itself, with its proofs."""

    node: str
    kind: NodeKind
    certificate: Certificate
    token: str
    proof: bytes  # by the shared key
    about: tuple[bytes, ...]  # what that is about: both challenges, and what it says of itself


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

    def asks_for_proof(self, claim: Claim) -> bool:
        """Whether it could prove itself with the shared key, and has not yet."""
        if claim.kind != "broker" or self._keys is None or claim.proof:
            return False
        return not (claim.certificate and certified(claim.certificate).says_broker)

    def proof(self, about: tuple[bytes, ...]) -> bytes:
        """Ours; empty where there is no key."""
        return b"" if self._keys is None else self._keys.proof(about)

    # Who dials us --------------------------------------------------------------------------------

    def identity(self, claim: Claim, peers: Container[str]) -> Identity:
        """Who somebody is that has dialled us; a NotTrustedError when it is not what it says."""
        return self._broker(claim, peers) if claim.kind == "broker" else self._client(claim, peers)

    def _broker(self, claim: Claim, peers: Container[str]) -> Identity:
        shown = certified(claim.certificate)
        if self._authority and claim.certificate:
            found = shown.identity("broker", claim.node)
            if found is not None and (shown.says_broker or claim.node in peers):
                return found
            if found is None:
                raise NotTrustedError(f"its certificate is for {shown}, not for the broker {claim.node}")
        if self._keys is not None:
            if self._keys.proves(claim.proof, claim.about):
                return Identity(claim.node)
            raise NotTrustedError(f"it does not prove that it is the broker {claim.node}: it has no key, or another")
        if self._authority:
            raise NotTrustedError(
                f"it does not prove that {claim.node} is a broker: its certificate needs the URI "
                f"holdfast:broker:{claim.node}, or {claim.node} a place among our peers"
            )
        return Identity(claim.node)

    def _client(self, claim: Claim, peers: Container[str]) -> Identity:
        if claim.node in peers:
            raise NotTrustedError(f"{claim.node} is a broker, and not a client")
        if self._authority and claim.certificate:
            shown = certified(claim.certificate)
            found = shown.identity("client", claim.node)
            if found is None:
                raise NotTrustedError(f"its certificate is for {shown}, not for the client {claim.node}")
            return self._with_right(found)
        if self._tokens is not None and claim.token:
            try:
                found = self._tokens.identity_untrusted(claim.token)
            except PeerError as problem:
                raise NotTrustedError(str(problem)) from None
            if not may_be_called(found.name, claim.node):
                raise NotTrustedError(f"its token is for {found.name}, not for {claim.node}")
            return self._with_right(found)
        if self._tokens is not None and self.rights is None:
            raise NotTrustedError("it has no token; write --token FILE, token= in Python")
        if (self._tokens is not None or self._authority or self.rights is not None) and not is_nobodys(claim.node):
            raise NotTrustedError(
                f"it does not prove that it is {claim.node}; a client without certificate and token is called "
                "anonymous.NAME, or has no name"
            )
        return self._with_right(ANONYMOUS)

    def _with_right(self, identity: Identity) -> Identity:
        if self.rights is not None and not self.rights.has_any(identity):
            who = identity.name or "a client without certificate and token"
            raise NotTrustedError(f"{who} has no right here")
        return identity

    # Whom we dial --------------------------------------------------------------------------------

    def check_dialled(self, claim: Claim) -> None:
        """That a broker that we have dialled is what it says; a NotTrustedError when it is not."""
        if self._authority and claim.certificate:
            shown = certified(claim.certificate)
            if shown.identity("broker", claim.node) is None:
                raise NotTrustedError(f"its certificate is for {shown}, not for the broker {claim.node}")
            return
        if self._keys is not None and not self._keys.proves(claim.proof, claim.about):
            raise NotTrustedError(f"it does not prove that it is the broker {claim.node}: it has no key, or another")
