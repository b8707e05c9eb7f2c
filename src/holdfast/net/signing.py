"""What a client signs its events with, whose signatures it wants on those of others, and what blinds its digests:
files, read when it enters.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.model.errors import InputError
from holdfast.model.limits import ATTRIBUTES_BYTES_MAX, ATTRIBUTES_MAX
from holdfast.protocol.parts import PROOF_BYTES_MAX
from holdfast.trust.shared_key import read_key_lines
from holdfast.trust.signatures import Signers, read_signing_key


@dataclass(frozen=True)
class Signing:
    sign: str | None = None  # a private key
    verify: str | None = None  # the public keys of signers
    digest_key: str | None = None  # that clients share, so that others read nothing in digests
    keeps: bool = False  # what it gets stays signed, for those who will read it

    def check_name(self, name: str | None) -> None:
        if self.sign is not None and name is None:
            raise InputError("sign needs a name: subscribers look up the key by the name of who publishes")

    def parts(self) -> dict[str, Any]:
        """For whoever makes the client's machine; an InputError when a file is no good."""
        sign = None if self.sign is None else read_signing_key(self.sign)
        signers = None if self.verify is None else Signers(self.verify)
        keys = () if self.digest_key is None else read_key_lines(Path(self.digest_key), "digest key")
        return {"sign": sign, "signers": signers, "keeps_proofs": self.keeps, "digest_keys": keys}

    @property
    def more_bytes(self) -> int:
        """That an event takes more than its own."""
        return 0 if self.sign is None else PROOF_BYTES_MAX

    def check_group(self) -> None:
        if self.verify is not None:
            raise InputError("verify is not for groups: a member cannot tell its broker which events it refuses")

    def check_fits(self, names: int, size: int) -> None:
        """That an event, with so many names in so many bytes, has room for a proof."""
        if self.sign is not None and (names >= ATTRIBUTES_MAX or size > ATTRIBUTES_BYTES_MAX - PROOF_BYTES_MAX):
            most = f"{ATTRIBUTES_MAX - 1} attributes in {ATTRIBUTES_BYTES_MAX - PROOF_BYTES_MAX} bytes"
            raise InputError(f"event too large to be signed: {names} attributes in {size} bytes; the limit is {most}")


UNSIGNED = Signing()
