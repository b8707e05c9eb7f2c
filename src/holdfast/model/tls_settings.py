"""The files of TLS, called alike in the network file, in Python, on the command line and on Spark."""

from dataclasses import dataclass

from holdfast.model.settings import Settings, setting

_PATH = "a path in quotes"


@dataclass(frozen=True)
class TlsSettings(Settings):
    certificate: str | None = setting(
        None,
        "PEM file with our certificate, for tls",
        "who only dials needs none, unless brokers have a ca",
        expects=_PATH,
        key="certificate",
        otherwise="none",
    )
    key: str | None = setting(
        None,
        "PEM file with the private key of the certificate",
        "the certificate's file may hold it",
        expects=_PATH,
        key="key",
        formerly="private_key",
        otherwise="none",
    )
    ca: str | None = setting(
        None,
        "PEM file with the authority that has signed the certificates of the others; no other certificate is trusted",
        "public brokers have certificates that the system trusts",
        expects=_PATH,
        key="ca",
        formerly="authority",
        otherwise="none",
    )
