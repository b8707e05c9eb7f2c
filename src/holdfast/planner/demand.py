"""Who is to get how much from where: the weights of a subscriber's publishers.

A subscriber's reliability is the mean over its publishers, each by the rate of its events that the subscriber wants.
Only the publisher's broker and the events' lifetime matter, so publishers alike in both are one origin. The rates
come from the network file: publications that it spells out are matched one by one; publishers of a drawn workload are
all alike, so every one counts the same; where the file gives chances for each pair (`rates`), these count."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf

import numpy as np
import numpy.typing as npt

from holdfast.matching.matcher import Matcher
from holdfast.network.schema import ClientSpec, Network
from holdfast.network.workload.files import Files
from holdfast.network.workload.publication import ScheduledEvent
from holdfast.network.workload.rates import Rates
from holdfast.network.workload.workloads import Silent
from holdfast.planner.components import US_PER_S

_DRAWN_MAX = 2_000  # events of a drawn workload that are matched, to learn who wants what share of it
_READ_MAX = 200_000  # rows of an event file that are matched
_MATCHES_MAX = 2_000_000  # after so many pairs the shares are known well enough
_TOPIC = re.compile(r"t(\d+) = TRUE")  # the condition of the workload `rates`

Attributes = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Origin:
    broker: str
    lifetime_s: float = inf


@dataclass(frozen=True, slots=True)
class SubscriberDemand:
    id: str
    broker: str


@dataclass(frozen=True)
class Demand:
    origins: tuple[Origin, ...]
    subscribers: tuple[SubscriberDemand, ...]
    common: npt.NDArray[np.float64]  # events a second of each origin, as far as all subscribers want them alike
    share: npt.NDArray[np.float64]  # which part of the common ones a subscriber wants
    own: Mapping[int, Mapping[int, float]]  # subscriber -> origin -> events a second on top of that
    published: npt.NDArray[np.float64]  # events a second of each origin, whoever wants them

    def is_owed(self, subscriber: int) -> bool:
        """Whether anything that is published is known to be for it."""
        return bool(self.own.get(subscriber)) or bool(self.share[subscriber] * self.common.sum())

    def rates(self, subscriber: int) -> npt.NDArray[np.float64]:
        """Events a second that a subscriber is to get, by origin; all origins alike when nothing is known of it."""
        found = np.asarray(self.share[subscriber] * self.common, dtype=np.float64)
        for origin, rate in self.own.get(subscriber, {}).items():
            found[origin] += rate
        if not found.any():
            return self.common.copy() if self.common.any() else np.ones(len(self.origins))
        return found

    def weights(self, subscriber: int) -> npt.NDArray[np.float64]:
        """The same as shares of the whole. Who wants nothing of its own has exactly the same ones as all like it."""
        rates = self.common if subscriber not in self.own and self.common.any() else self.rates(subscriber)
        total = rates.sum()
        return rates / total if total else rates

    def without_brokers(self, gone: frozenset[str]) -> "Demand":
        """Clients of brokers that are removed go with them."""
        here = [at for at, origin in enumerate(self.origins) if origin.broker not in gone]
        kept = [at for at, each in enumerate(self.subscribers) if each.broker not in gone]
        own = {
            new: {place: rates[old_place] for place, old_place in enumerate(here) if old_place in rates}
            for new, old in enumerate(kept)
            if (rates := self.own.get(old))
        }
        return Demand(
            tuple(self.origins[at] for at in here),
            tuple(self.subscribers[at] for at in kept),
            self.common[here],
            self.share[kept],
            own,
            self.published[here],
        )


def demand_of(network: Network, more: Sequence[ClientSpec] = ()) -> Demand:
    """Of everybody who subscribes; `more` are clients that are not in the file yet."""
    return _Gathering(network, [*network.clients, *more]).demand()


class _Gathering:
    def __init__(self, network: Network, clients: Sequence[ClientSpec]) -> None:
        self._network = network
        self._clients = clients
        self._subscribing = [client for client in clients if client.subscriptions]
        self._wanting: dict[str, list[int]] = defaultdict(list)  # condition -> who has it
        for at, client in enumerate(self._subscribing):
            for each in client.subscriptions:
                self._wanting[each.condition].append(at)
        self._matcher = Matcher()
        self._conditions = list(self._wanting)
        for number, condition in enumerate(self._conditions):
            self._matcher.add(number, condition)
        self._origins: dict[Origin, int] = {}
        self._own: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        self._common: dict[int, float] = defaultdict(float)
        self._published: dict[int, float] = defaultdict(float)
        self._share = np.ones(len(self._subscribing))

    def demand(self) -> Demand:
        self._spelled_out()
        workload = self._network.workload
        if isinstance(workload, Rates):
            self._chances(workload)
        elif isinstance(workload, Files):
            self._rows()
        elif not isinstance(workload, Silent):
            self._drawn(workload.traffic.mean_per_s(), workload.traffic.lifetime_us)
        common, published = (
            np.array([rates[origin] for origin in range(len(self._origins))])
            for rates in (self._common, self._published)
        )
        subscribers = tuple(SubscriberDemand(client.id, client.broker) for client in self._subscribing)
        own = {at: dict(rates) for at, rates in self._own.items()}
        return Demand(tuple(self._origins), subscribers, common, self._share, own, published)

    def _origin(self, broker: str, lifetime_us: int | None) -> int:
        lifetime_s = inf if lifetime_us is None else lifetime_us / US_PER_S
        return self._origins.setdefault(Origin(broker, lifetime_s), len(self._origins))

    def _wanted_by(self, attributes: Attributes) -> Iterator[int]:
        """Each subscriber once, however many of its conditions match."""
        found = (
            at for number in self._matcher.match(attributes) for at in self._wanting[self._conditions[int(number)]]
        )
        yield from dict.fromkeys(found)

    def _spelled_out(self) -> None:
        for client in self._clients:
            for each in client.schedule:
                rate = each.mean_per_s(self._network.duration_us)
                origin = self._origin(client.broker, each.lifetime_us)
                self._published[origin] += rate
                for at in self._wanted_by(each.attributes):
                    self._own[at][origin] += rate

    def _chances(self, workload: Rates) -> None:
        topics = {}
        for at, client in enumerate(self._subscribing):
            for each in client.subscriptions:
                if found := _TOPIC.fullmatch(each.condition):
                    topics[at] = int(found[1]) - 1
        rate = workload.traffic.mean_per_s()
        for client in self._clients:
            if client.works:
                origin = self._origin(client.broker, workload.traffic.lifetime_us)
                self._published[origin] += rate
                chances = workload.chances(self._network.seed, client.id)
                for at, topic in topics.items():
                    if topic < len(chances):
                        self._own[at][origin] += rate * chances[topic]
        self._share[:] = 0.0

    def _rows(self) -> None:
        """A file's events are what they are: each row counts as one."""
        homes = {client.id: client.broker for client in self._clients}
        matches = 0
        for publication in islice(self._of_workload(), _READ_MAX):
            origin = self._origin(homes[publication.client], publication.lifetime_us)
            self._published[origin] += 1
            for at in self._wanted_by(publication.attributes):
                self._own[at][origin] += 1
                matches += 1
            if matches > 10 * _MATCHES_MAX:
                break
        self._share[:] = 0.0

    def _drawn(self, rate_per_s: float, lifetime_us: int | None) -> None:
        for client in self._clients:
            if client.works:
                origin = self._origin(client.broker, lifetime_us)
                self._common[origin] += rate_per_s
                self._published[origin] += rate_per_s
        counts = np.zeros(len(self._subscribing))
        events = 0
        for publication in islice(self._of_workload(), _DRAWN_MAX):
            events += 1
            for at in self._wanted_by(publication.attributes):
                counts[at] += 1
            if counts.sum() > _MATCHES_MAX:
                break
        self._share = counts / max(events, 1)

    def _of_workload(self) -> Iterator[ScheduledEvent]:
        workers = [client.id for client in self._clients if client.works]
        streams = self._network.workload.streams(workers, self._network.seed, self._network.window)
        while streams:  # in turn, so that a short look sees all of them
            for stream in list(streams):
                publication = next(stream, None)
                if publication is None:
                    streams.remove(stream)
                else:
                    yield publication
