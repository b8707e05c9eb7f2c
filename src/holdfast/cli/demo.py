"""`holdfast demo`: match a batch of trades with ten thousand conditions, and check the answer."""

import json
import random
import time
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import pyarrow as pa

    from holdfast.matching.matcher import Matcher

_SYMBOLS = 2_000
_CHECKED = 20  # events that the slow scan judges again: a second's work


def run(
    events: Annotated[int, typer.Option(min=1, max=10_000_000, help="How many trades.")] = 200_000,
    subscriptions: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many conditions.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same trades and conditions.")] = 7,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Match a batch of trades with many conditions, and let the slow scan check part of the answer.

    \b
    Example:
      holdfast demo --events 1000000 --subscriptions 1000
    """
    from holdfast.matching.matcher import Matcher

    table, conditions = _trades(events, seed), _conditions(subscriptions, seed)
    say = (lambda _: None) if as_json else print
    say(f"{events:,} trades, {subscriptions:,} conditions; the first ones are")
    for condition in conditions[:4]:
        say(f"  {condition}")
    matcher = Matcher()
    began = time.perf_counter()
    for number, condition in enumerate(conditions):
        matcher.add(f"q{number}", condition)
    parsed = time.perf_counter() - began
    say(f"parsed     {subscriptions / parsed:>12,.0f} conditions/s")
    began = time.perf_counter()
    matcher.match_batch(table.slice(0, 1))
    compiled = time.perf_counter() - began
    say(f"compiled   {compiled:>12.2f} s (the very first run also compiles the kernels)")
    began = time.perf_counter()
    pairs = matcher.match_batch(table)
    matched = time.perf_counter() - began
    say(f"matched    {events / matched:>12,.0f} trades/s, {pairs.num_rows:,} pairs, one thread")
    wrong = _disagreements(matcher, conditions, table)
    say(f"checked    {min(events, _CHECKED):>12} trades against the slow scan: {wrong or 'no'} disagreements")
    if as_json:
        print(
            json.dumps(
                {
                    "events": events,
                    "subscriptions": subscriptions,
                    "seed": seed,
                    "parse_per_s": subscriptions / parsed,
                    "compile_s": compiled,
                    "match_per_s": events / matched,
                    "pairs": pairs.num_rows,
                    "disagreements": wrong,
                }
            )
        )
    else:
        _why_not(conditions[0], table)
    if wrong:
        raise typer.Exit(1)


def _trades(count: int, seed: int) -> "pa.Table":
    import numpy as np
    import pyarrow as pa

    from holdfast.network.workload.stock import PRICE, VOLUME_MAX, symbol

    rng = np.random.default_rng(seed)
    popularity = 1 / np.arange(1, _SYMBOLS + 1)
    symbols = pa.array([symbol(n) for n in range(_SYMBOLS)])
    traded = rng.choice(_SYMBOLS, count, p=popularity / popularity.sum()).astype(np.int32)
    return pa.table(
        {
            "class": pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), pa.array(["stock"])),
            "symbol": pa.DictionaryArray.from_arrays(traded, symbols),
            "price": np.round(rng.lognormal(*PRICE, count), 2),
            "volume": rng.integers(1, VOLUME_MAX, count, endpoint=True),
        }
    )


def _conditions(count: int, seed: int) -> list[str]:
    from holdfast.network.workload.stock import condition

    dice = random.Random(f"{seed}/conditions")
    return [condition(_SYMBOLS, dice) for _ in range(count)]


def _disagreements(matcher: "Matcher", conditions: list[str], table: "pa.Table") -> int:
    from holdfast.matching.scan import Scan

    scan = Scan()
    for n, condition in enumerate(conditions):
        scan.add(f"q{n}", condition)
    part = table.slice(0, _CHECKED)
    pairs = matcher.match_batch(part)
    found: set[tuple[int, object]] = set(
        zip(pairs["event"].to_pylist(), pairs["subscription"].to_pylist(), strict=True)
    )
    expected = {(row, id_) for row, event in enumerate(part.to_pylist()) for id_ in scan.match(event)}
    live = {(row, id_) for row, event in enumerate(part.to_pylist()) for id_ in matcher.match(event)}
    return len(found ^ expected) + len(live ^ expected)


def _why_not(condition: str, table: "pa.Table") -> None:
    from holdfast.language.parser import parse

    print("\nwhy does the first trade match, or not match, the first condition?")
    print(f"  {table.slice(0, 1).to_pylist()[0]}")
    for line in str(parse(condition).explain(table.slice(0, 1).to_pylist()[0])).splitlines():
        print(f"  {line}")
