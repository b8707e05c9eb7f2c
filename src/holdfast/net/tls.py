"""TLS from files: who we are (certificate and key) and whom we trust (ca, an authority).

A node that is given an authority trusts only certificates signed by it, on both ends: those it dials and those
that dial it, which then have to present one. Without an authority it dials those that the system trusts
and accepts anyone.
"""

import ssl
from pathlib import Path

from holdfast.model.errors import InputError
from holdfast.model.tls_settings import TlsSettings


class TlsFiles(TlsSettings):
    def for_listening(self) -> ssl.SSLContext:
        if self.certificate is None:
            raise InputError("listening with TLS needs a certificate and its key: --certificate FILE --key FILE")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._identify(context)
        if self.ca is not None:
            self._trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def for_dialling(self) -> ssl.SSLContext:
        if self.ca is None:
            context = ssl.create_default_context()
        else:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self._trust(context)
        if self.certificate is not None:
            self._identify(context)
        elif self.key is not None:
            raise InputError(f"{self.key}: a key without its certificate; add --certificate FILE")
        return context

    def _identify(self, context: ssl.SSLContext) -> None:
        assert self.certificate is not None
        for path in (self.certificate, self.key):
            _check_readable(path)
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (ssl.SSLError, ValueError) as problem:
            files = f"{self.certificate} with {self.key}"
            if self.key is None:
                files = f"{self.certificate} (which must hold its key, too, unless --key FILE names that)"
            raise InputError(f"bad certificate: {files}: {_plain(problem)}") from None

    def _trust(self, context: ssl.SSLContext) -> None:
        _check_readable(self.ca)
        try:
            context.load_verify_locations(self.ca)
        except ssl.SSLError as problem:
            raise InputError(f"bad certificate: {self.ca}: {_plain(problem)}") from None


def _check_readable(path: str | None) -> None:
    if path is not None:
        try:
            Path(path).open("rb").close()
        except OSError as problem:
            raise InputError(f"bad certificate: {path}: {problem.strerror}") from None


def _plain(problem: Exception) -> str:
    reason = getattr(problem, "reason", None)
    return reason.replace("_", " ").lower() if isinstance(reason, str) else "not in PEM format or of another key"
