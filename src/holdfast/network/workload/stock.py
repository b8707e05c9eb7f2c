"""Trades of stocks: a few symbols are traded often, prices are log-normal, and conditions are of mixed kinds."""

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from holdfast.model.settings import setting
from holdfast.model.values import Value
from holdfast.network.workload.publication import PublishingWindow, ScheduledEvent, publication
from holdfast.network.workload.traffic import Traffic, dice_of
from holdfast.network.workload.zipf import cumulative

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
SYMBOLS_MAX = 26**4  # four letters, as on the exchange
PRICE = (4.0, 1.0)  # mean and deviation of the price's logarithm: the middle one is 55, one in forty is above 400
VOLUME_MAX = 10_000


def symbol(number: int) -> str:
    """The symbol with that rank: four letters, no two alike, neighbours in rank not neighbours in the alphabet."""
    number = number * 7_919 % SYMBOLS_MAX  # a prime, so that this is a permutation
    return "".join(_LETTERS[number // 26**place % 26] for place in range(4))


def condition(symbols: int, dice: Random) -> str:
    """What somebody may want to know of trades in so many symbols."""
    wanted = symbol(int(symbols ** dice.random()) - 1)  # popular ones are also asked for more
    price, volume = round(dice.lognormvariate(*PRICE), 2), dice.randrange(1, VOLUME_MAX)
    kinds = (
        f"symbol = '{wanted}' AND price < {price}",
        f"symbol IN ('{wanted}', '{symbol(dice.randrange(symbols))}') AND volume > {volume}",
        f"symbol LIKE '{wanted[:2]}%' AND price BETWEEN {price} AND {round(1.1 * price, 2)}",
        f"symbol = '{wanted}' OR price > {round(20 * price, 2)} AND NOT volume < {volume}",
    )
    return dice.choice(kinds)


@dataclass(frozen=True)
class Stock:
    traffic: Traffic
    per_client: int = setting(
        1,
        "subscriptions of each subscriber",
        "to begin with",
        unit="subscriptions",
        at_least=0,
        at_most=10_000,
        key="per_client",
    )
    symbols: int = setting(2_000, "stocks traded", "a large exchange", at_most=SYMBOLS_MAX, key="symbols")
    skew: float = setting(
        1.0, "the n-th symbol is traded in proportion to 1/n**skew", "Zipf's law", at_least=0, at_most=10, key="skew"
    )

    def streams(self, publishers: Sequence[str], seed: int, window: PublishingWindow) -> list[Iterator[ScheduledEvent]]:
        names = [symbol(number) for number in range(self.symbols)]
        bounds = cumulative(self.symbols, self.skew)
        return [self._stream(client, names, bounds, dice_of(seed, client), window) for client in publishers]

    def _stream(
        self, client: str, names: list[str], bounds: Sequence[float], dice: Random, window: PublishingWindow
    ) -> Iterator[ScheduledEvent]:
        traffic = self.traffic
        for at_us in traffic.times(dice, window):
            trade: dict[str, Value] = {
                "class": "stock",
                "symbol": names[bisect(bounds, dice.random())],
                "price": round(dice.lognormvariate(*PRICE), 2),
                "volume": 1 + int(VOLUME_MAX * dice.random()),
            }
            yield publication((at_us, client, trade, traffic.payload_bytes, traffic.lifetime_us))

    def conditions(self, number: int, dice: Random) -> list[str]:
        return [condition(self.symbols, dice) for _ in range(self.per_client)]

    def advertisement(self) -> str:
        return "class = 'stock'"
