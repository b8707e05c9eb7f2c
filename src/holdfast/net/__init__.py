"""The live driver: the protocol's machines over real sockets, and the client API."""
