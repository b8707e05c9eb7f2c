"""Whatever stands in a network file, it is accepted or refused with an InputError, never anything else."""

import copy
import tomllib
from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.errors import InputError
from holdfast.network.load import parse_text
from holdfast.network.presets import preset_text
from tests.network.examples import FULL

JUNK: list[Any] = [
    0, -1, 1, 2, 7, 10**6, 2**63, 10**30, 0.5, -0.5, 1e300, float("inf"), float("-inf"), float("nan"), True, False, "",
    "a", "b", "c1", "all", "none", "kind", "x" * 300, "a\0b", "x = 1", "x = ", "⚓", [], [1], ["a", "b"], [["a", "b"]],
    [[]], {}, {"kind": "tree"}, {"id": "x"}, [{}], [{"id": "x", "broker": "a"}], {"x": {"y": {}}}, [0.1, 0.2],
]  # fmt: skip
NAMES = "kind id brokers links loss seed broker link client fault every_s count publish x".split()


def tables(data: Any) -> Iterator[Any]:
    if isinstance(data, dict | list):
        yield data
        for each in data.values() if isinstance(data, dict) else data:
            yield from tables(each)


def mutate(data: dict[str, Any], dice: Random) -> None:
    target = dice.choice(list(tables(data)))
    junk = copy.deepcopy(dice.choice(JUNK))
    if isinstance(target, list):
        if target and dice.random() < 0.7:
            target[dice.randrange(len(target))] = junk
        else:
            target.append(junk)
    elif target and dice.random() < 0.7:
        key = dice.choice(list(target))
        if dice.random() < 0.2:
            del target[key]
        else:
            target[key] = junk
    else:
        target[dice.choice(NAMES)] = junk


def survives(source: str | dict[str, Any]) -> bool:
    try:
        network = parse_text(source)
        list(islice(network.publications(), 20))
        list(islice(network.timeline(), 20))
    except InputError:
        return False
    return True


PRESETS = [
    pytest.param(preset_text("quickstart"), id="quickstart"),
    pytest.param(preset_text("wan-12"), id="wan-12"),
    pytest.param(preset_text("planning-10"), id="planning-10", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("source", [pytest.param(FULL, id="full"), *PRESETS])
def test_a_file_with_random_changes_is_accepted_or_refused(source: str) -> None:
    accepted = 0
    for seed in range(400):
        dice = Random(seed)
        data = tomllib.loads(source)
        for _ in range(dice.randrange(1, 4)):
            mutate(data, dice)
        accepted += survives(data)
    assert 0 < accepted < 400


@pytest.mark.parametrize("source", [pytest.param(FULL, id="full"), PRESETS[0]])
def test_a_text_with_random_characters_is_accepted_or_refused(source: str) -> None:
    for seed in range(300):
        dice = Random(seed)
        at = dice.randrange(len(source))
        survives(source[:at] + dice.choice('[]{}"=.,#\n09-a \0é') + source[at + dice.randrange(4) :])


scalars = st.sampled_from([each for each in JUNK if not isinstance(each, list | dict)]) | st.text(max_size=5)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=8,
)
TOPS = list(tomllib.loads(FULL)) + ["reconfiguration", "unknown"]


@given(st.dictionaries(st.sampled_from(TOPS), values, max_size=6))
def test_any_data_is_accepted_or_refused(data: dict[str, Any]) -> None:
    survives(data)
