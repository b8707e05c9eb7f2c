"""The model's rule for `basic`, all of the path up or nothing, against the simulator that runs the real protocol.

The simulator's failures come from named dice, so the test draws the same outages by itself and knows for every event
whether its path was up. What is left to differ are events on their way as something fails, and the moments after a
restart until a broker has heard again who wants what.
"""

from bisect import bisect
from random import Random

from holdfast.network.load import parse_text
from holdfast.network.schema import Network
from holdfast.planner.failures import simulate
from holdfast.planner.overlay import overlay_of
from holdfast.sim.simulator import Simulation

SECONDS = 8_000
HEAL_S = 4  # heartbeats until tables are whole again, and the lease of what was known before


def network() -> Network:
    return parse_text(
        {
            "seed": 5,
            "duration_s": float(SECONDS),
            "topology": {"kind": "line", "brokers": ["b1", "b2", "b3"]},
            "brokers": {"availability": 0.9, "cycle_s": 1_000.0},
            "links": {"delay_ms": 1, "availability": 0.95, "cycle_s": 1_000.0},
            "client": [
                {
                    "id": "source",
                    "broker": "b1",
                    "publish": [{"at_s": 10, "every_s": 1.0, "attributes": {"kind": "a"}, "lifetime_s": 1.0}],
                },
                {"id": "desk", "broker": "b3", "subscriptions": ["kind = 'a'"]},
            ],
            "protocol": {"heartbeat_s": 1.0, "lease_s": 3.5},
        }
    )


def changes(made: Network, name: str, up_us: int, down_us: int) -> list[int]:
    """When a component goes down, up, down and so on."""
    dice = Random(f"{made.seed}/{name}/failures")
    at, found, up = 0, [], True
    while at < SECONDS * 1_000_000:
        at += max(1, round(dice.expovariate(1 / (up_us if up else down_us))))
        found.append(at)
        up = not up
    return found


def test_an_event_arrives_when_its_path_is_up_and_else_not() -> None:
    made = network()
    outages = [changes(made, each.id, each.mtbf_us or 0, each.mttr_us or 0) for each in made.brokers]
    outages += [changes(made, f"{each.a}-{each.b}", each.mtbf_us or 0, each.mttr_us or 0) for each in made.links]
    times = range(10_000_000, SECONDS * 1_000_000, 1_000_000)
    up = sum(all(bisect(each, at) % 2 == 0 for each in outages) for at in times)
    outcome = Simulation(made).run()
    assert outcome.owed == len(times)
    assert outcome.delivered <= up
    restarts = sum(len(each) // 2 for each in outages)
    assert outcome.delivered >= up - HEAL_S * restarts
    # And in the long run that is what the failure-only simulation gives, and the product.
    path = overlay_of(made).path(0, 2)
    assert path is not None
    share = simulate(overlay_of(made), [path], 1.0, 100_000, "basic").reliability()[0, 0]
    assert abs(share - 0.9**3 * 0.95**2) < 0.006
