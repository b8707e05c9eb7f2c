"""What to do about a prediction: which scheme is enough, what holds it back, what would help most.

The cheapest scheme that gives every subscriber the target is recommended. What holds a scheme back is the subscriber
that gets least and the component whose failures cost it most. Components are ranked by what subscribers would gain on
average if that one never failed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from holdfast.planner.components import NEVER_FAILS
from holdfast.planner.overlay import Overlay
from holdfast.planner.pairs import Predictor
from holdfast.planner.plan import SCHEMES, Case, Endpoints, SubscriberPrediction, by_home, predict_home

RANKED_MAX = 300  # components of a network up to which all are tried: a few seconds at 10 brokers, a minute at 60


@dataclass(frozen=True)
class Gain:
    component: str  # a broker's name, or those of a link's brokers
    availability: float
    mean: float  # by how much the mean over subscribers would grow
    worst: float  # and the value of the subscriber that gets least


@dataclass(frozen=True)
class Advice:
    scheme: str | None  # the cheapest that is enough
    target: float
    endpoints: Endpoints
    best: str  # the scheme that gives the worst-off subscriber most
    least: dict[str, tuple[str, float]]  # by scheme: who gets least, and how much
    means: dict[str, float]
    gains: tuple[Gain, ...] = ()  # for the scheme that is enough, or else the best; the largest first

    @property
    def about(self) -> str:
        """The scheme that words and gains are about."""
        return self.scheme or self.best

    def words(self) -> str:
        who, value = self.least[self.about]
        if self.scheme is not None:
            text = f"{self.scheme} is enough: every subscriber gets at least {value:.6f}, the target is {self.target:g}"
        else:
            text = f"no scheme is enough: with {self.best} {who} gets {value:.6f} and the target is {self.target:g}"
        held = max(self.gains, key=lambda gain: gain.worst, default=None)
        if held is not None and held.worst > 0:
            text += f"; {who} is limited most by {held.component} (up {held.availability:.4f} of the time)"
        return text


def advise(predictions: Sequence[SubscriberPrediction], target: float, endpoints: Endpoints) -> Advice:
    least: dict[str, tuple[str, float]] = {}
    for scheme in SCHEMES:
        value, who = min((each.of(scheme, endpoints), each.subscriber) for each in predictions)
        least[scheme] = who, value
    means = {scheme: fmean(each.of(scheme, endpoints) for each in predictions) for scheme in SCHEMES}
    return judged(least, means, target, endpoints)


def judged(least: dict[str, tuple[str, float]], means: dict[str, float], target: float, endpoints: Endpoints) -> Advice:
    """From who gets least with each scheme, and the means."""
    enough = next((scheme for scheme in SCHEMES if least[scheme][1] >= target), None)
    best = max(SCHEMES, key=lambda scheme: least[scheme][1])
    return Advice(enough, target, endpoints, best, least, means)


def gains(case: Case, predictor: Predictor, scheme: str, endpoints: Endpoints, worst: str) -> list[Gain]:
    """Every component in turn never fails; hybrid is compared by its bound, which is quick. The largest gain first."""
    wanted = frozenset({scheme})

    def trying(overlay: Overlay) -> Predictor:
        return Predictor(overlay, predictor.samples, predictor.seed, wanted, predictor)

    improved = list(_improved(case.overlay))
    before, tried = trying(case.overlay), [trying(better) for _, _, better in improved]
    more, of_worst = [0.0] * len(improved), [0.0] * len(improved)
    for home, members in by_home(case).items():  # all for one broker, then the next: its diagrams are at hand
        now = {each.subscriber: each.of(scheme, endpoints) for each in predict_home(case, before, home, members)}
        for at, better in enumerate(tried):
            for each in predict_home(Case(better.overlay, case.demand), better, home, members):
                gain = each.of(scheme, endpoints) - now[each.subscriber]
                more[at] += gain
                of_worst[at] += gain if each.subscriber == worst else 0.0
    count = len(case.demand.subscribers)
    found = [Gain(name, share, more[at] / count, of_worst[at]) for at, (name, share, _) in enumerate(improved)]
    return sorted(found, key=lambda gain: (-gain.mean, gain.component))


def _improved(overlay: Overlay) -> Iterator[tuple[str, float, Overlay]]:
    for at, component in enumerate(overlay.brokers):
        if component.fails:
            yield overlay.names[at], component.availability, overlay.with_broker(at, NEVER_FAILS)
    for at, link in enumerate(overlay.links):
        if link.component.fails:
            yield overlay.link_name(at), link.component.availability, overlay.with_link(at, NEVER_FAILS)


def can_rank(overlay: Overlay) -> bool:
    return len(overlay.brokers) + len(overlay.links) <= RANKED_MAX
