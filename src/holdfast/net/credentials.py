"""What a greeting proves: the words that a proof by the shared key is about, and who claims what.

Both ends work them out for themselves. Everything is in them that the greeting says of its sender and that anybody acts
upon, and what each end has chosen for this connection alone.
"""

from holdfast.trust.certificate import Certificate
from holdfast.trust.gate import Credentials
from holdfast.wire.signals import Hello, Welcome

Words = tuple[bytes, ...]


def dial_words(hello: Hello, challenge: bytes) -> Words:
    """Of whoever dials, about the challenge of whom it has dialled."""
    replaces, expects = hello.replaces or "", hello.expects or ""
    named = [each.encode() for each in (hello.node, hello.kind, replaces, expects)]
    return b"dial", challenge, hello.nonce, *named, _number(hello.epoch), _number(hello.secret)


def answer_words(welcome: Welcome, nonce: bytes, challenge: bytes) -> Words:
    """Of whoever was dialled, about what the other end has sent for this, and about the own challenge."""
    return b"answer", challenge, nonce, welcome.node.encode(), welcome.kind.encode(), _number(welcome.epoch)


def _number(value: int) -> bytes:
    return str(value).encode()


def credentials_of(far: Hello | Welcome, certificate: Certificate, about: Words) -> Credentials:
    token = far.token if isinstance(far, Hello) else ""
    return Credentials(far.node, far.kind, certificate, token, far.proof, about)
