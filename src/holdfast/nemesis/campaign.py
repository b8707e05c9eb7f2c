"""Runs in a row: each mode with each seed, judged as it ends, and what they found in one table.

A run is told by file, mode, seed and length; these four make it again.
"""

from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from holdfast.model.errors import InputError
from holdfast.nemesis.arena import Ground
from holdfast.nemesis.attack import attack
from holdfast.nemesis.judge.evidence import Evidence, evidence_in
from holdfast.nemesis.judge.verdict import Judgement, Rules, judge
from holdfast.nemesis.modes import Mode
from holdfast.nemesis.schedule import PlannedFault, draw, quiet_us, settle_us
from holdfast.network.load import load
from holdfast.network.problems import NetworkError
from holdfast.network.schema import Network

_ROUND_S = 60.0  # of one run: long enough for twenty faults, short enough to look at
_CALM_SHARE = 1.5  # a run is to be this many times as long as what is left free of faults
_SLACK_US = 500_000  # a busy machine reads a clock so long before or after what the time is about
_AGAIN_US = 1_500_000  # docs/hops.md: about a second, and what a busy machine adds


@dataclass(frozen=True)
class Campaign:
    """What was asked for."""

    file: str
    modes: Sequence[Mode]
    minutes: float
    seed: int
    settings: dict[str, Any] = field(default_factory=dict)
    kinds: tuple[str, ...] = ()  # of faults; none: all
    out: Path | None = None

    @property
    def rounds(self) -> int:
        return max(1, round(self.minutes * 60 / len(self.modes) / _ROUND_S))

    @property
    def run_us(self) -> int:
        return int(self.minutes * 60e6 / len(self.modes) / self.rounds)

    @property
    def seeds(self) -> range:
        return range(self.seed, self.seed + self.rounds)

    @property
    def commands(self) -> list[str]:
        """Those that make each run again."""
        return [self.again(mode, seed) for seed in self.seeds for mode in self.modes]

    def again(self, mode: Mode, seed: int) -> str:
        """The command that makes one run again."""
        words = [f"--modes {mode.name} --seed {seed} --minutes {self.run_us / 60e6:g}"]
        words += [f"--faults {','.join(self.kinds)}"] if self.kinds else []
        words += [f"--set {key}={value}" for key, value in self.settings.items()]
        return f"holdfast nemesis {self.file} {' '.join(words)}"


@dataclass
class AttackRun:
    """One mode under one seed."""

    mode: Mode
    seed: int
    again: str
    faults: list[PlannedFault] = field(default_factory=list)
    verdict: Judgement = field(default_factory=Judgement)
    struck: Counter[str] = field(default_factory=Counter)  # what was done, by kind
    notes: list[str] = field(default_factory=list)
    skipped: str = ""  # why the mode does not go with the file

    @property
    def lost(self) -> int:
        return sum(self.verdict.named.values()) + self.verdict.unnamed

    def as_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = msgspec.to_builtins(self.verdict)
        return {
            "mode": self.mode.name,
            "seed": self.seed,
            "again": self.again,
            "faults": dict(self.struck),
            "notes": self.notes,
            **plain,
        }


Attack = Callable[[Ground, Sequence[PlannedFault], Callable[[str], None]], None]


def run_all(
    campaign: Campaign,
    run_loop: Callable[[Any], Any],
    progress: Callable[[str], None],
    on_run: Callable[[AttackRun], None] = lambda run: None,
    made: Container[str] = (),
) -> list[AttackRun]:
    """The runs of a campaign, each handed to `on_run` as it ends; those `made` before are left out."""
    runs: list[AttackRun] = []
    for seed in campaign.seeds:
        for mode in campaign.modes:
            if campaign.again(mode, seed) in made or any(each.mode is mode and each.skipped for each in runs):
                continue
            runs.append(_run(campaign, mode, seed, run_loop, progress))
            if not runs[-1].skipped:
                on_run(runs[-1])
    return runs


def _run(
    campaign: Campaign, mode: Mode, seed: int, run_loop: Callable[[Any], Any], progress: Callable[[str], None]
) -> AttackRun:
    found = AttackRun(mode, seed, campaign.again(mode, seed))
    settings = {**mode.settings, "duration_s": campaign.run_us / 1e6, **campaign.settings}
    try:
        network = load(campaign.file, settings)
    except NetworkError as problem:
        if any(each.by_setting for each in problem.problems):
            found.skipped = "; ".join(each.message for each in problem.problems)
            return found
        raise
    check(network, campaign.run_us)
    found.faults = draw(network, mode, seed, campaign.run_us, campaign.kinds)
    progress(f"{mode.name}, seed {seed}: {len(found.faults)} faults in {campaign.run_us / 1e6:g} s")
    with TemporaryDirectory(prefix="holdfast-nemesis-") as scratch:
        folder = Path(scratch) if campaign.out is None else campaign.out / f"{mode.name}-{seed}"
        folder.mkdir(parents=True, exist_ok=campaign.out is None)
        (folder / "schedule.json").write_bytes(msgspec.json.format(msgspec.json.encode(found.faults)))
        ground = Ground(network, mode, campaign.file, settings, seed, folder, campaign.run_us)
        run_loop(attack(ground, found.faults, progress))
        evidence = evidence_in(folder)
        found.verdict = judge(evidence, rules_of(network, mode))
        _count(found, evidence)
        (folder / "verdict.json").write_bytes(msgspec.json.format(msgspec.json.encode(found.as_json())))
    return found


def _count(found: AttackRun, evidence: Evidence) -> None:
    found.struck = Counter(each.kind for each in evidence.struck.values())
    found.notes = evidence.notes


def check(network: Network, run_us: int) -> None:
    """An InputError when nothing could be learned from such a run."""
    least_us = int(_CALM_SHARE * 2 * quiet_us(network))
    if run_us < least_us:
        raise InputError(
            f"--minutes: {run_us / 1e6:g} s for each mode are too few; with a lease of "
            f"{network.protocol.lease_us / 1e6:g} s a run needs {least_us / 1e6:g} s: "
            "take fewer --modes, or more minutes"
        )
    if not any(each.publishes for each in network.clients) or not any(each.subscriptions for each in network.clients):
        raise InputError("the network file needs clients that publish and clients that subscribe")
    if network.transport.kind == "tls":
        raise InputError("transport.kind: the nemesis attacks TCP and UDP; leave tls out")


def rules_of(network: Network, mode: Mode) -> Rules:
    recovery = network.reliability.guarantees.recovery
    return Rules(
        names_losses=mode.names_losses,
        by_incident=mode.by_incident,
        in_order=mode.in_order,
        stores=mode.stores,
        keeps=mode.keeps,
        settle_us=settle_us(network),
        slack_us=_SLACK_US,
        search_us=0 if recovery is None else getattr(recovery, "search_us", 0),
        again_us=_AGAIN_US,
        once=not mode.mqtt,
        known_at_once=network.carrier is not None,
    )
