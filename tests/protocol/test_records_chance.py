"""False positives are as rare as the closed form says, and rarer than with the paper's filters."""

from math import sqrt
from random import Random

import pytest

from bench.record_events import schema_condition, schema_event
from bench.siena import siena_covers, siena_entry, siena_pattern
from holdfast import parse
from holdfast.protocol.records import BloomSettings, ColumnSettings, Relevance, covers, first_book, learned_book
from holdfast.protocol.records.formulas import false_positive_ratio

TRIALS = 4_000


@pytest.mark.parametrize(("bits", "hashes"), [(64, None), (64, 2), (128, 3), (256, 2)])
@pytest.mark.parametrize("direct", [True, False])
def test_a_tag_that_an_event_has_not_seems_to_be_there_as_often_as_the_closed_form_says(
    bits: int, hashes: int | None, direct: bool
) -> None:
    settings = BloomSettings(bits, hashes=hashes, direct=direct)
    book, dice = first_book(settings), Random(bits)
    hashed = bits * 3 // 4 if direct else bits
    expected = false_positive_ratio(hashed, settings.hashes_used, items=10)
    found = 0
    for trial in range(TRIALS):
        entry = book.entry({f"a{n}": dice.getrandbits(60) for n in range(10)})
        found += covers(entry, book.pattern(parse(f"a3 = 'x{trial}'")))
    assert abs(found / TRIALS - expected) < 3 * sqrt(expected * (1 - expected) / TRIALS)


def test_an_encoding_that_knows_the_values_is_right_much_more_often_than_the_paper_s() -> None:
    """Small; `./run bench records` has it in full."""
    dice = Random(9)
    book = learned_book(ColumnSettings(), [schema_event(dice) for _ in range(512)])
    bloom = learned_book(BloomSettings(), [schema_event(dice) for _ in range(512)])
    subscriptions = [parse(schema_condition(dice, "1 eq + 1 range")) for _ in range(60)]
    wrong = {"siena": 0, "bloom": 0, "columns": 0}
    others = 0
    several = [schema_event(dice) for _ in range(150)]
    for subscription in subscriptions:
        masks, relevance = siena_pattern(subscription), Relevance([subscription])
        for event in several:
            if not subscription.matches(event):
                others += 1
                wrong["siena"] += siena_covers(siena_entry(event), masks)
                wrong["bloom"] += relevance.covers(bloom, bloom.entry(event))
                wrong["columns"] += relevance.covers(book, book.entry(event))
    assert others > 8_000
    assert wrong["siena"] > 0.03 * others
    assert wrong["bloom"] < 0.015 * others
    assert wrong["columns"] < 0.002 * others
