from tests.net.conftest import authority, other_authority
from tests.trust.doors import doors

__all__ = ["authority", "doors", "other_authority"]
