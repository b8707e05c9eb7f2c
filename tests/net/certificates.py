"""An authority and certificates for tests, made by the openssl command when they are first needed."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.net.tls import TlsFiles

_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]


@dataclass(frozen=True)
class Authority:
    """Signs certificates for 127.0.0.1; everything lies in one folder."""

    folder: Path

    @property
    def certificate(self) -> str:
        return str(self.folder / "ca.pem")

    def broker(self, name: str) -> TlsFiles:
        return self.files(f"broker-{name}", True, f"holdfast:broker:{name}")

    def files(self, name: str, trusting: bool = True, *uris: str) -> TlsFiles:
        """A certificate for this name, or for what these URIs say, and trust in the authority."""
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        if not certificate.exists():
            signed_by = ["-CA", self.certificate, "-CAkey", str(self.folder / "ca.key")]
            names = ",".join(["subjectAltName=IP:127.0.0.1,DNS:localhost", *[f"URI:{each}" for each in uris]])
            _openssl("req", "-x509", *_KEY, *signed_by, "-subj", f"/CN={name}", "-addext", names,
                     "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", key, "-out", certificate)  # fmt: skip
        return TlsFiles(str(certificate), str(key), self.certificate if trusting else None)


def new_authority(folder: Path) -> Authority:
    if shutil.which("openssl") is None:
        pytest.skip("certificates for the test are made by the openssl command, and there is none here")
    _openssl(
        "req", "-x509", *_KEY, "-subj", "/CN=test authority", "-keyout", folder / "ca.key", "-out", folder / "ca.pem"
    )
    return Authority(folder)


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
