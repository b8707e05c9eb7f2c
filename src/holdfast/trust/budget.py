"""What one connection and one identity may cost a broker: how much they send, and how many connections they have.

Who sends more than its budget is slowed: the broker does not read from it until the time that its frames are worth has
passed. So it feels it as it feels any slow broker, and loses nothing. Datagrams cannot be held up; those above the
budget are dropped. An identity has its budget for all its connections together. Who has not proved who it is has only
that of its connection. Brokers have none: what they bring is that of the clients behind them.
"""

from dataclasses import dataclass

from holdfast.model.settings import Settings, setting
from holdfast.trust.identity import Principal

_BURST_S = 1.0  # of a budget that may be spent at once: applications send in bursts
_TOLD_AGAIN_S = 1.0


@dataclass(frozen=True)
class BudgetSettings(Settings):
    """What one connection and one identity may cost a broker."""

    connection_frames_s: int = setting(
        50_000,
        "frames a second of one client's connection; a batch of events is one frame",
        "half of what a core takes, so that one client leaves the other half to others",
        unit="frames",
    )
    connection_bytes_s: int = setting(
        256 * 2**20, "bytes a second of one client's connection", "twice what a gigabit network brings", unit="bytes"
    )
    identity_frames_s: int = setting(
        50_000,
        "frames a second of one identity, over all its connections",
        "that of one connection: more connections buy no more",
        unit="frames",
    )
    identity_bytes_s: int = setting(
        256 * 2**20, "bytes a second of one identity, over all its connections", "likewise", unit="bytes"
    )
    identity_connections: int = setting(
        1_000, "connections of one identity", "a tenth of all: one token that leaks does not keep others out"
    )
    identity_filters: int = setting(
        2_000_000,
        "filters of the subscriptions of one identity, over all its connections",
        "twice what one connection may have: more connections buy no more",
        unit="filters",
    )
    identity_subscriptions: int = setting(
        1_000_000, "different conditions of one identity, counted on each of its connections", "as many as filters fit"
    )
    half_open: int = setting(
        1_000,
        "connections that have not said who they are, in TLS handshakes and before the greeting",
        "clients that all come back at once need a few milliseconds each; at most a quarter of the open files",
    )
    http_requests_s: int = setting(
        50, "requests a second for /metrics and /health, of one host", "a monitoring system asks every few seconds"
    )


class Meter:
    """Says how long to wait until what was spent is paid for, at so much a second."""

    def __init__(self, frames_s: float, bytes_s: float = float("inf")) -> None:
        self._frame_s, self._byte_s = 1 / frames_s, 1 / bytes_s
        self._paid_s = 0.0  # until when; ahead of the time by at most a burst before anybody waits

    def spend(self, size: int, now_s: float, may_wait: bool = True, frames: int = 1) -> float:
        """Frames of so many bytes: seconds to wait, or nothing above 0. Who may not wait has not spent it then."""
        paid_s = max(self._paid_s, now_s) + max(frames * self._frame_s, size * self._byte_s)
        wait_s = paid_s - now_s - _BURST_S
        if may_wait or wait_s <= 0:
            self._paid_s = paid_s
        return wait_s


class _Account:
    """Of one identity, while it has connections."""

    def __init__(self, of: BudgetSettings) -> None:
        self.meter = Meter(of.identity_frames_s, of.identity_bytes_s)
        self.connections = 0


class ConnectionBudget:
    """Of one connection, with that of the identity behind it."""

    def __init__(self, own: Meter, shared: Meter | None, why: str) -> None:
        self._own = own
        self._shared = shared
        self._why = why
        self._told_s = 0.0

    def spend(self, size: int, now_s: float, may_wait: bool = True, frames: int = 1) -> float:
        """The same as that of a meter, for both."""
        wait_s = self._own.spend(size, now_s, may_wait, frames)
        return wait_s if self._shared is None else max(wait_s, self._shared.spend(size, now_s, may_wait, frames))

    def why_now(self, now_s: float) -> str:
        """Why it is slowed, for whoever is to know; empty when that was said less than a second ago."""
        if now_s < self._told_s + _TOLD_AGAIN_S:
            return ""
        self._told_s = now_s
        return self._why


class IdentityShares:
    """What the clients of one identity have subscribed to, all together; who has not proved who it is counts alone."""

    def __init__(self, settings: BudgetSettings) -> None:
        self._settings = settings
        self._identities: dict[str, str] = {}  # of clients that are connected, by name
        self._used: dict[str, tuple[str, int, int]] = {}  # by client: its identity, filters and conditions
        self._totals: dict[str, tuple[int, int]] = {}  # by identity

    def enter(self, client: str, identity: Principal) -> None:
        """A client is connected; `leave` when it is not. What it has subscribed to may be kept for longer."""
        if identity.name:
            self._identities[client] = identity.name

    def leave(self, client: str) -> None:
        self._identities.pop(client, None)

    def why_over(self, client: str, filters: int, conditions: int) -> str:
        """Why a client may not have so many; empty when it may."""
        name = self._identities.get(client)
        if name is None:
            return ""
        (all_filters, all_conditions), own = self._totals.get(name, (0, 0)), self._used.get(client, (name, 0, 0))
        of = self._settings
        if filters + all_filters - own[1] > of.identity_filters:
            return f"{of.identity_filters:,} filters of all clients of {name} (identity_filters)"
        if conditions + all_conditions - own[2] > of.identity_subscriptions:
            return f"{of.identity_subscriptions:,} subscriptions of all clients of {name} (identity_subscriptions)"
        return ""

    def note(self, client: str, filters: int, conditions: int) -> None:
        self.forget(client)
        name = self._identities.get(client)
        if name is not None:
            self._used[client] = name, filters, conditions
            total = self._totals.get(name, (0, 0))
            self._totals[name] = total[0] + filters, total[1] + conditions

    def forget(self, client: str) -> None:
        """It has no subscriptions any more."""
        name, filters, conditions = self._used.pop(client, ("", 0, 0))
        total = self._totals.pop(name, (0, 0))
        if total != (filters, conditions):
            self._totals[name] = total[0] - filters, total[1] - conditions


class Budgets:
    def __init__(self, settings: BudgetSettings) -> None:
        self._settings = settings
        self.conditions = IdentityShares(settings)
        self._accounts: dict[str, _Account] = {}  # of identities that have connections

    def why_full(self, identity: Principal) -> str:
        """Why an identity may have no more connections; empty when it may."""
        account, most = self._accounts.get(identity.name), self._settings.identity_connections
        if account is None or account.connections < most:
            return ""
        return f"{identity.name} has {most:,} connections already, the most of one identity"

    def enter(self, identity: Principal) -> None:
        """A connection begins; `leave` when it ends."""
        if identity.name:
            self._accounts.setdefault(identity.name, _Account(self._settings)).connections += 1

    def of(self, identity: Principal) -> ConnectionBudget:
        """What a connection of this identity may send."""
        of = self._settings
        own, account = Meter(of.connection_frames_s, of.connection_bytes_s), self._accounts.get(identity.name)
        limits = f"{of.connection_frames_s:,} frames or {of.connection_bytes_s:,} bytes a second on one connection"
        if account is not None:
            limits += f", or {of.identity_frames_s:,} frames or {of.identity_bytes_s:,} bytes as {identity.name}"
        return ConnectionBudget(own, None if account is None else account.meter, f"it sends more than {limits}")

    def leave(self, identity: Principal) -> None:
        account = self._accounts.get(identity.name)
        if account is not None:
            account.connections -= 1
            if not account.connections:
                del self._accounts[identity.name]
