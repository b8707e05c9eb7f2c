"""Messages and traces as bytes: encoding, versions, limits, and reading what cannot be trusted."""
