"""Errors say whose fault it is.

`MisuseError`: our caller broke a rule of the interface; it is raised and never swallowed.
`InputError`: a person wrote something we cannot accept (a condition, a file, an event); it carries the
place, what was expected and a suggestion, and the command line turns it into exit code 2.
`PeerError`: bytes from outside are not acceptable; caught once at the edge, counted, dropped.
`MissingExtraError`: a package is not installed that one of our extras brings.
`TransportError`: the network or the node at the other end does not let us: a port in use, nobody there, a refusal.
`TimedOutError`: the same, within the time that the caller has given; it is a `TimeoutError`, too.
`HoldfastWarning`: what is allowed and probably not meant.
"""


class HoldfastError(Exception):
    """Everything that Holdfast raises on purpose."""


class MisuseError(HoldfastError):
    """The caller broke a rule of the interface."""


class InputError(HoldfastError):
    """Something handed to us by a person or a file is invalid."""


class MissingExtraError(HoldfastError, ImportError):
    """A package is missing that one of our extras brings; the message says how to install it."""


class PeerError(HoldfastError):
    """Bytes from another node are not acceptable."""


class TransportError(HoldfastError):
    """The network, or the node at the other end, does not let us."""


class TimedOutError(TransportError, TimeoutError):
    """A call was not done within its `timeout`; the message says what became of what was not sent."""


class HoldfastWarning(UserWarning):
    """Something is allowed and probably not meant: a condition that never matches, a timestamp without a time zone."""
