"""What workloads draw, against closed forms and within three standard errors.

The conditions are judged by the language's own evaluation, event by event; the rates by counting.
"""

import tracemalloc
from collections import Counter
from itertools import islice, pairwise
from math import comb, exp, log, sqrt
from statistics import NormalDist, mean, stdev
from typing import Any

import pytest

from holdfast.language.parser import parse
from holdfast.network.load import parse_text
from holdfast.network.schema import Network
from holdfast.network.workload.rates import Rates


def network(brokers: int = 20, **workload: Any) -> Network:
    clients = workload.pop("clients", {})
    duration_s = workload.pop("duration_s", 20)
    topology = {"kind": "tree", "brokers": brokers}
    return parse_text({"duration_s": duration_s, "topology": topology, "clients": clients, "workload": workload})


def within(found: float, expected: float, error: float, errors: float = 3) -> bool:
    return abs(found - expected) <= errors * error


def share_within(hits: int, of: int, expected: float, errors: float = 3) -> bool:
    return within(hits / of, expected, sqrt(expected * (1 - expected) / of), errors)


@pytest.mark.parametrize("kind", ["patterns", "zipf", "stock"])
@pytest.mark.parametrize("rate", [3, 40])
def test_publications_come_at_the_rate_asked_for(kind: str, rate: int) -> None:
    drawn = list(network(kind=kind, rate_per_s=rate).publications())
    expected = 20 * 18 * rate  # 20 publishers, for 18 s: a second is left at both ends of the run
    assert within(len(drawn), expected, sqrt(expected))  # Poisson: the variance is the mean
    assert {each.client for each in drawn} == {f"c{number}" for number in range(1, 21)}


def test_publications_come_in_the_order_of_time_and_within_the_window() -> None:
    drawn = [each.at_us for each in network(kind="patterns", start_s=5, stop_s=8).publications()]
    assert drawn == sorted(drawn)
    assert drawn[0] >= 5_000_000 and drawn[-1] < 8_000_000


def test_random_gaps_are_exponential() -> None:
    one = network(brokers=1, kind="patterns", rate_per_s=200, duration_s=200)
    gaps = [b.at_us - a.at_us for a, b in pairwise(one.publications())]
    assert within(mean(gaps), 5_000, 5_000 / sqrt(len(gaps)))
    for times in (0.5, 1, 3):  # P[gap > t] = exp(-t/mean)
        assert share_within(sum(gap > times * 5_000 for gap in gaps), len(gaps), exp(-times))


def test_periodic_gaps_are_equal_and_publishers_not_in_step() -> None:
    drawn = list(network(kind="patterns", rate_per_s=8, spacing="periodic").publications())
    times: dict[str, list[int]] = {}
    for each in drawn:
        times.setdefault(each.client, []).append(each.at_us)
    for own in times.values():
        assert {b - a for a, b in pairwise(own)} <= {124_999, 125_000, 125_001}
    assert len({own[0] for own in times.values()}) == 20


def test_payload_and_lifetime_are_those_of_the_file() -> None:
    first = next(network(kind="zipf", payload_bytes=300, lifetime_s=1.5).publications())
    assert (first.payload_bytes, first.lifetime_us) == (300, 1_500_000)


def test_an_event_has_exactly_so_many_patterns_each_equally_often() -> None:
    drawn = [each.attributes for each in network(kind="patterns").publications()]
    assert {len(each) for each in drawn} == {3}
    assert {value for each in drawn for value in each.values()} == {True}
    counts = Counter(name for each in drawn for name in each)
    assert len(counts) == 70
    # 70 shares are looked at, so that one may well be past three standard errors; none past four.
    assert all(share_within(count, len(drawn), 3 / 70, errors=4) for count in counts.values())


@pytest.mark.parametrize("per_event", [1, 7, 10])
def test_patterns_may_be_few_or_all(per_event: int) -> None:
    drawn = network(kind="patterns", patterns=10, per_event=per_event, rate_per_s=20).publications()
    assert {len(each.attributes) for each in drawn} == {per_event}


def test_a_subscriber_of_two_patterns_matches_as_often_as_paper_001_says() -> None:
    found = network(kind="patterns")
    events = [each.attributes for each in islice(found.publications(), 5_000)]
    hits = pairs = 0
    for client in found.clients:
        assert len({each.condition for each in client.subscriptions}) == 2
        wanted = [parse(each.condition) for each in client.subscriptions]
        hits += sum(any(each.matches(event) for each in wanted) for event in events)
        pairs += len(events)
    assert share_within(hits, pairs, 1 - comb(67, 2) / comb(70, 2))  # 0.0845


def zipf_shares(skew: float) -> list[float]:
    weights = [n**-skew for n in range(1, 21)]
    return [each / sum(weights) for each in weights]


@pytest.mark.parametrize("skew", [0.1, 0.5, 1, 4])
def test_values_follow_zipf(skew: float) -> None:
    drawn = [each.attributes["attr"] for each in network(kind="zipf", skew=skew, rate_per_s=50).publications()]
    counts = Counter(drawn)
    for value, share in enumerate(zipf_shares(skew), 1):
        assert share_within(counts[value], len(drawn), share, errors=4)


@pytest.mark.parametrize("favour", ["low", "high"])
@pytest.mark.parametrize("skew", [0.5, 2])
def test_zipf_conditions_match_as_often_as_the_two_laws_say(skew: float, favour: str) -> None:
    found = network(kind="zipf", skew=skew, favour=favour, rate_per_s=100, clients={"count": 2_000, "publishers": 10})
    bounds = Counter(each.subscriptions[0].condition for each in found.clients)
    conditions = {parse(text): count for text, count in bounds.items()}
    events = Counter(each.attributes["attr"] for each in islice(found.publications(), 10_000))
    hits = sum(
        times * count
        for value, times in events.items()
        for condition, count in conditions.items()
        if condition.matches({"attr": value})
    )
    low = zipf_shares(skew)
    published = low if favour == "low" else low[::-1]
    above = [sum(published[bound:]) for bound in range(1, 21)]  # P[event > bound]
    expected = sum(share * each for share, each in zip(low, above, strict=True))
    # 10,000 events and 2,000 conditions are drawn, each of which matches between never and always.
    error = sqrt(expected * (1 - expected) * (1 / 10_000 + 1 / 2_000))
    assert within(hits / 10_000 / 2_000, expected, error)


def test_what_is_published_is_what_was_advertised() -> None:
    for kind in ("patterns", "zipf", "rates", "content", "stock"):
        found = network(kind=kind)
        for client in found.clients:
            (advertised,) = client.advertisements
            assert parse(advertised).warnings == ()
        condition = parse(found.clients[0].advertisements[0])
        assert all(condition.matches(each.attributes) for each in islice(found.publications(), 200))


def test_every_stock_condition_is_plain_and_some_trades_match() -> None:
    found = network(kind="stock", per_client=20)
    conditions = [parse(each.condition) for client in found.clients for each in client.subscriptions]
    assert len(conditions) == 400 and not any(each.warnings for each in conditions)
    trades = [each.attributes for each in islice(found.publications(), 1_000)]
    hits = sum(each.matches(trade) for each in conditions for trade in trades)
    assert 0.001 < hits / 400_000 < 0.1


def test_symbols_are_traded_in_proportion_to_their_rank() -> None:
    drawn = Counter(each.attributes["symbol"] for each in network(kind="stock", rate_per_s=50).publications())
    total, harmonic = sum(drawn.values()), sum(1 / n for n in range(1, 2_001))
    for rank, (_, count) in enumerate(drawn.most_common(5), 1):
        assert share_within(count, total, 1 / rank / harmonic, errors=4)


def rates(**settings: Any) -> Network:
    settings = {"kind": "rates", "clients": {"count": 60, "publishers": 6, "subscribers": "others"}} | settings
    return network(brokers=12, **settings)


def test_each_pair_matches_as_often_as_its_own_chance_says() -> None:
    found = rates(duration_s=60)
    assert isinstance(found.workload, Rates)
    wanted = [client.subscriptions[0].condition for client in found.clients if client.subscriptions]
    assert wanted == [f"t{number} = TRUE" for number in range(1, 55)]
    hits: Counter[tuple[str, str]] = Counter()
    published: Counter[str] = Counter()
    for each in found.publications():
        published[each.client] += 1
        hits.update((each.client, name) for name in each.attributes if name.startswith("t"))
    far = 0
    for client, count in published.items():
        for number, chance in enumerate(found.workload.chances(found.seed, client), 1):
            assert 0 <= chance <= 0.1
            far += not share_within(hits[client, f"t{number}"], count, chance)
    assert far <= 4  # of 324 pairs about one is past three standard errors


def test_pairs_and_receivers_are_those_of_paper_000() -> None:
    found = rates(duration_s=60)
    assert isinstance(found.workload, Rates)
    chances = [list(found.workload.chances(seed, "c1")) for seed in range(200)]
    flat = [each for own in chances for each in own]
    assert share_within(sum(each < 0.08 for each in flat), len(flat), 0.8)
    receivers = [sum(name.startswith("t") for name in each.attributes) for each in found.publications()]
    assert within(mean(receivers), 54 * 0.05, 54**0.5 * 0.0289 / sqrt(6))  # six publishers drew 54 chances each
    assert 0.40 < sum(each <= 2 for each in receivers) / len(receivers) < 0.60  # "50 % have at most 2 receivers"


def test_a_popular_event_interests_many() -> None:
    found = rates(duration_s=60, popularity=1.6, clients={"count": 230, "publishers": 10, "subscribers": "others"})
    assert isinstance(found.workload, Rates)
    receivers, expected = [], Counter[str]()
    for each in found.publications():
        receivers.append(sum(name.startswith("t") for name in each.attributes))
        expected[each.client] += 1
    # E[min(1, factor * chance)] over the factor's log-normal law, by its quantiles
    factors = [exp(-1.28 + 1.6 * NormalDist().inv_cdf((n + 0.5) / 2_000)) for n in range(2_000)]
    mean_receivers = 0.0
    for client, count in expected.items():
        chances = found.workload.chances(found.seed, client)
        own = mean(sum(min(1, factor * each) for each in chances) for factor in factors)
        mean_receivers += own * count / len(receivers)
    assert within(mean(receivers), mean_receivers, stdev(receivers) / sqrt(len(receivers)))
    assert 0.40 < sum(each <= 2 for each in receivers) / len(receivers) < 0.55  # spec/end-to-end: 0.46


def content(**settings: Any) -> Network:
    settings = {"kind": "content", "clients": {"count": 60, "publishers": 6, "subscribers": "others"}} | settings
    return network(brokers=12, **settings)


def test_content_has_ten_attributes_and_conditions_of_four_tests() -> None:
    found = content()
    assert {len(each.attributes) for each in found.publications()} == {10}
    conditions = [parse(client.subscriptions[0].condition) for client in found.clients if client.subscriptions]
    assert len(conditions) == 54
    tests = {tuple(each.attribute for each in conjunction) for each in conditions for conjunction in each.filters}
    assert {tuple(sorted(each)) for each in tests} == {("a1", "a2", "a3", "source")}


def test_content_matches_as_in_paper_000() -> None:
    """80 % of the pairs below 0.08, none above 0.1, and half of the events with two receivers at most."""
    found = content()
    conditions = [parse(client.subscriptions[0].condition) for client in found.clients if client.subscriptions]
    kinds = [
        Counter(
            next(test.operand for test in conjunction if test.attribute == "source") for conjunction in each.filters
        )
        for each in conditions
    ]
    shares = [each[f"c{number}"] / 40 for each in kinds for number in range(1, 61) if each[f"c{number}"]]
    assert max(shares) <= 0.1
    pairs = 54 * 6
    # Uniform between 0 and 4 kinds, rounded up as often as keeps the mean: four kinds for one pair in eight.
    assert share_within(sum(each < 0.08 for each in shares) + pairs - len(shares), pairs, 7 / 8)
    assert within(sum(shares) / pairs, 0.05, 0.0316 / sqrt(pairs))
    receivers = [
        sum(each.matches(event.attributes) for each in conditions) for event in islice(found.publications(), 900)
    ]
    assert 0.35 < sum(each <= 2 for each in receivers) / len(receivers) < 0.65


def test_a_popular_kind_of_content_interests_many() -> None:
    found = content(popularity=1.8, clients={"count": 230, "publishers": 10, "subscribers": "others"})
    conditions = [parse(client.subscriptions[0].condition) for client in found.clients if client.subscriptions]
    wanted = Counter(conjunction for each in conditions for conjunction in each.filters)
    assert max(wanted.values()) > 60  # of 220, who want 11 events on average
    assert 0.35 < (400 - len(wanted) + sum(each <= 2 for each in wanted.values())) / 400 < 0.65


def test_rates_jump_within_their_bounds_and_average_as_log_uniform_does() -> None:
    found = rates(duration_s=102, hold_s=[0.5, 2])
    per_second: dict[str, Counter[int]] = {}
    for each in found.publications():
        per_second.setdefault(each.client, Counter())[each.at_us // 1_000_000] += 1
    counts = [own[second] for own in per_second.values() for second in range(1, 101)]
    assert max(counts) <= 500 + 5 * sqrt(500)
    # A rate lasts 1.25 s on average, so that about half of the seconds tell something new.
    assert within(mean(counts), 480 / log(25), stdev(counts) / sqrt(len(counts) / 2))
    assert max(counts) > 5 * min(counts)


def test_spikes_are_at_the_highest_rate() -> None:
    steady = rates(spikes=1, rates_per_s=[1, 100], duration_s=22)
    expected = 6 * 20 * 100
    assert within(sum(1 for _ in steady.publications()), expected, sqrt(expected))


def test_events_have_at_least_the_attributes_asked_for() -> None:
    sizes = Counter(len(each.attributes) for each in rates().publications())
    assert min(sizes) == 10 and sizes.most_common(1)[0][0] == 10


def test_a_publisher_draws_the_same_whoever_else_publishes() -> None:
    def of_c1(brokers: int) -> list[Any]:
        return [each for each in network(brokers=brokers, kind="stock").publications() if each.client == "c1"]

    assert of_c1(3) == of_c1(9)


def test_another_seed_draws_something_else() -> None:
    found = network(kind="stock")
    assert list(islice(found.publications(1), 9)) == list(islice(found.publications(), 9))
    assert list(islice(found.publications(2), 9)) != list(islice(found.publications(1), 9))


def test_drawing_takes_no_memory_however_long_the_run_is() -> None:
    long = network(kind="patterns", duration_s=1_000_000_000)
    tracemalloc.start()
    try:
        for _ in islice(long.publications(), 50_000):
            pass
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
