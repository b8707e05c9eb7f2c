"""Admission control: would a new subscriber get what it is promised, with the scheme that the network uses?"""

from dataclasses import dataclass

from holdfast.language.parser import parse
from holdfast.model.errors import InputError
from holdfast.model.validation import did_you_mean
from holdfast.network.schema import ClientSpec, Network, SubscriptionSpec
from holdfast.network.settings import PlanSettings
from holdfast.planner.demand import demand_of
from holdfast.planner.overlay import overlay_of
from holdfast.planner.pairs import Predictor
from holdfast.planner.plan import SCHEMES, Case, SubscriberPrediction, predict


@dataclass(frozen=True)
class Admission:
    broker: str
    scheme: str  # the network's own
    target: float
    values: dict[str, float]  # by scheme
    prediction: SubscriberPrediction
    is_owed: bool  # whether what is published matches at all

    @property
    def value(self) -> float:
        return self.values[self.scheme]

    @property
    def accepted(self) -> bool:
        return self.value >= self.target

    def words(self) -> str:
        verdict = "accepted" if self.accepted else "refused"
        text = f"{verdict}: a subscriber at {self.broker} gets {self.value:.6f} with {self.scheme}, "
        text += f"and the target is {self.target:g}"
        enough = next((each for each in SCHEMES if self.values[each] >= self.target), None)
        if not self.accepted:
            text += f"; {enough} would give {self.values[enough]:.6f}" if enough else "; no scheme is enough"
        return text if self.is_owed else f"{text}; nothing that is published matches, so all publishers count alike"

    def as_json(self) -> dict[str, object]:
        return {
            "accepted": self.accepted,
            "broker": self.broker,
            "scheme": self.scheme,
            "predicted": self.value,
            "target": self.target,
            "schemes": self.values,
            "method": self.prediction.method,
            "matches": self.is_owed,
            "words": self.words(),
        }


def admission(network: Network, broker: str, condition: str, target: float, settings: PlanSettings) -> Admission:
    names = [each.id for each in network.brokers]
    if broker not in names:
        hint = did_you_mean(broker, names) or f"there are {', '.join(names[:8])}"
        raise InputError(f'--admit: there is no broker "{broker}"; {hint}')
    if not parse(condition).filters:  # a mistake in it is told here, before anything is computed
        raise InputError(f"--wants {condition!r}: no event can match this; write TRUE for all of them")
    client = ClientSpec("newcomer", broker, (SubscriptionSpec("s1", condition),))
    case = Case(overlay_of(network), demand_of(network, [client]))
    newcomer = len(case.demand.subscribers) - 1
    if not case.demand.origins:
        raise InputError(f"{network.name}: nobody publishes; there is nothing to predict")
    predictor = Predictor(case.overlay, settings.samples, f"{network.seed}/plan")
    [found] = predict(case, predictor, [newcomer])
    values = {scheme: found.of(scheme, settings.endpoints) for scheme in SCHEMES}
    hops = network.reliability.hops.hops
    # What only sends again what a link lost is as good as basic against failures.
    scheme = hops if hops in SCHEMES else "basic"
    return Admission(broker, scheme, target, values, found, case.demand.is_owed(newcomer))
