"""The files that say whom a broker trusts with what."""

from dataclasses import dataclass
from pathlib import Path

from holdfast.model.settings import Settings, setting


@dataclass(frozen=True)
class TrustSettings(Settings):
    broker_key: Path | None = setting(
        None,
        "file with the key that brokers prove themselves with to each other, where certificates do not",
        "on one machine, or with certificates for all, none is needed",
    )
    token_keys: Path | None = setting(
        None,
        "file with the public keys of those who issue tokens to clients (a JWK set); clients without a certificate "
        "then need a token",
        "not every network has tokens",
    )
    rights: Path | None = setting(
        None,
        "file with what clients may publish and subscribe to; who has no right in it is refused",
        "without one, whoever is let in may publish and subscribe to anything",
    )

    @property
    def files(self) -> bool:
        """Whether there is any."""
        return any(each is not None for each in (self.broker_key, self.token_keys, self.rights))
