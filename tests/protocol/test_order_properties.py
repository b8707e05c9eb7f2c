"""Whatever arrives, in whatever order, with whatever lost: what holds for every latch."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from holdfast.protocol.order.latch import Dropped, Latch
from holdfast.protocol.order.settings import LatchSettings

ESTIMATORS = ("age-conformal", "late-conformal", "parametric", "bernstein", "quantile")


@dataclass(frozen=True)
class Arrival:
    at_us: int
    source: str
    seq: int
    departure_us: int
    record: int  # how many earlier numbers it speaks of
    is_repair: bool


@st.composite
def arrivals(draw: st.DrawFn) -> list[Arrival]:
    """Up to three publishers; each message is lost, repaired, or comes after a delay of its own."""
    found = []
    for source in "abc"[: draw(st.integers(1, 3))]:
        departure_us = draw(st.integers(0, 10**12))  # clocks that have nothing to do with ours
        left_us = 0
        first = draw(st.integers(0, 1_000))
        for seq in range(first, first + draw(st.integers(1, 40))):
            pause_us = draw(st.sampled_from([0, 1, 100, 3_000]))
            left_us, departure_us = left_us + pause_us, departure_us + pause_us
            fate = draw(st.sampled_from(["comes", "comes", "comes", "comes", "repaired", "lost"]))
            if fate != "lost":
                delay_us = draw(st.integers(0, 5_000 if fate == "comes" else 100_000))
                record = draw(st.sampled_from([0, 3, 10]))
                found.append(Arrival(left_us + delay_us, source, seq, departure_us, record, fate == "repaired"))
    return sorted(found, key=lambda each: (each.at_us, each.source, each.seq))


@st.composite
def settings(draw: st.DrawFn) -> LatchSettings:
    small = st.sampled_from([1, 2, 5, 1_000])
    return LatchSettings(
        late=draw(st.sampled_from(["deliver", "drop"])),
        estimator=draw(st.sampled_from(ESTIMATORS)),
        target=draw(st.sampled_from([0.05, 0.0001])),
        of=draw(st.sampled_from(["missing", "all"])),
        hold_us_max=draw(st.sampled_from([1, 2_000, 50_000])),
        cold_hold_us=draw(st.sampled_from([1, 4_000])),
        held_max=draw(small),
        held_per_source_max=draw(small),
        gaps_max=draw(small),
        gaps_per_source_max=draw(small),
        sources_max=draw(st.sampled_from([1, 1_000])),
        window=draw(st.sampled_from([1, 30, 1_000])),
        window_us=draw(st.sampled_from([1, 10**9])),
    )


class Judge:
    """Drives a latch, and looks only at what goes in and what comes out."""

    def __init__(self, chosen: LatchSettings) -> None:
        self.settings = chosen
        self.latch: Latch[Arrival] = Latch(chosen)
        self.received: dict[str, set[int]] = {}
        self.done: list[Arrival] = []
        self.top: dict[str, int] = {}

    def hold_us_max(self) -> int:
        return self.settings.hold_us_max

    def arrive(self, arrival: Arrival) -> None:
        have = self.received.setdefault(arrival.source, set())
        spoken_of = range(max(arrival.seq - arrival.record, 0), arrival.seq)
        gaps = [(seq, arrival.departure_us) for seq in spoken_of if seq not in have]
        have.add(arrival.seq)
        now_us = arrival.at_us
        self.judge(
            self.latch.on_message(
                arrival.source, arrival.seq, arrival.departure_us, now_us, gaps, arrival, arrival.is_repair
            ),
            now_us,
        )

    def pass_time(self, until_us: int) -> None:
        while (due_us := self.latch.next_due_us()) is not None and due_us <= until_us:
            self.judge(self.latch.on_timer(due_us), due_us)
            assert self.latch.next_due_us() != due_us

    def judge(self, effects: list, now_us: int) -> None:
        for effect in effects:
            arrival = effect.item
            assert arrival not in self.done
            self.done.append(arrival)
            before = self.top.get(arrival.source, -1)
            if isinstance(effect, Dropped):
                assert self.settings.late == "drop" and arrival.seq < before
                continue
            assert effect.held_us == now_us - arrival.at_us <= self.hold_us_max()
            if self.settings.sources_max > 3:  # a source that was forgotten and comes back is a new one
                assert effect.late == (arrival.seq < before)
                assert not (effect.late and self.settings.late == "drop")
            self.top[arrival.source] = max(before, arrival.seq)
        for held, held_max in self.latch.gauges().values():
            assert 0 <= held <= held_max


@given(arrivals(), settings())
def test_all_is_released_once_in_time_in_order_or_flagged_and_within_the_limits(
    stream: list[Arrival], chosen: LatchSettings
) -> None:
    judge = Judge(chosen)
    for arrival in stream:
        judge.pass_time(arrival.at_us - 1)
        judge.arrive(arrival)
    judge.pass_time(1 << 60)
    assert len(judge.done) == len(stream)
    assert judge.latch.gauges()["messages held back"][0] == judge.latch.gauges()["missing numbers awaited"][0] == 0


@given(arrivals(), settings(), st.integers(-(10**13), 10**13))
def test_the_offset_between_clocks_changes_nothing(
    stream: list[Arrival], chosen: LatchSettings, offset_us: int
) -> None:
    outcomes = []
    for shift_us in (0, offset_us):
        judge = Judge(chosen)
        for arrival in stream:
            judge.pass_time(arrival.at_us - 1)
            judge.arrive(
                Arrival(
                    arrival.at_us, arrival.source, arrival.seq, arrival.departure_us + shift_us, arrival.record, False
                )
            )
        judge.pass_time(1 << 60)
        outcomes.append([(each.source, each.seq) for each in judge.done])
    assert outcomes[0] == outcomes[1]
