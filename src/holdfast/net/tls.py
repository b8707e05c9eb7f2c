"""TLS from files: who we are (certificate and key) and whom we trust (an authority).

A node that is given an authority trusts only certificates signed by it, on both ends: those it dials and those
that dial it, which then have to present one. Without an authority it dials those that the system trusts
and accepts anyone.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path

from holdfast.model.errors import InputError


@dataclass(frozen=True)
class TlsFiles:
    certificate: str | None = None
    private_key: str | None = None
    authority: str | None = None

    def for_listening(self) -> ssl.SSLContext:
        if self.certificate is None:
            raise InputError("listening on tls:// needs a certificate and its key: --cert FILE --key FILE")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._identify(context)
        if self.authority is not None:
            self._trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def for_dialling(self) -> ssl.SSLContext:
        if self.authority is None:
            context = ssl.create_default_context()
        else:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self._trust(context)
        if self.certificate is not None:
            self._identify(context)
        elif self.private_key is not None:
            raise InputError(f"{self.private_key}: a key without its certificate; add --cert FILE")
        return context

    def _identify(self, context: ssl.SSLContext) -> None:
        assert self.certificate is not None
        for path in (self.certificate, self.private_key):
            _check_readable(path)
        try:
            context.load_cert_chain(self.certificate, self.private_key)
        except (ssl.SSLError, ValueError) as problem:
            files = f"{self.certificate} with {self.private_key}"
            if self.private_key is None:
                files = f"{self.certificate} (which must hold its key, too, unless --key FILE names that)"
            raise InputError(f"bad certificate: {files}: {_plain(problem)}") from None

    def _trust(self, context: ssl.SSLContext) -> None:
        _check_readable(self.authority)
        try:
            context.load_verify_locations(self.authority)
        except ssl.SSLError as problem:
            raise InputError(f"bad certificate: {self.authority}: {_plain(problem)}") from None


def _check_readable(path: str | None) -> None:
    if path is not None:
        try:
            Path(path).open("rb").close()
        except OSError as problem:
            raise InputError(f"bad certificate: {path}: {problem.strerror}") from None


def _plain(problem: Exception) -> str:
    reason = getattr(problem, "reason", None)
    return reason.replace("_", " ").lower() if isinstance(reason, str) else "not in PEM format or of another key"
