"""A broker, a subscriber with two conditions of its own, and a publisher, in one program.

    ./run python examples/quickstart.py

Usually a broker is a process of its own (`holdfast broker`), and clients only need its address.
"""

import asyncio

import holdfast

TRADES = [
    {"class": "stock", "symbol": "IBM", "price": 119.5, "volume": 300},
    {"class": "stock", "symbol": "IBM", "price": 131.0, "volume": 20_000},
    {"class": "stock", "symbol": "MSFT", "price": 41.0, "volume": 100},
]


async def main() -> None:
    async with (
        holdfast.Broker("tcp://127.0.0.1:0", name="b1") as broker,
        holdfast.connect(broker.address, name="feed") as feed,
        holdfast.connect(broker.address, name="desk") as desk,
    ):
        cheap = desk.subscribe("symbol = 'IBM' AND price < 120")
        large = desk.subscribe("class = 'stock' AND (volume > 10000 OR price > 1000)")
        await desk.flush()  # the broker knows both conditions now

        await feed.publish_many(TRADES)
        print("cheap:", (await anext(cheap)).event)
        print("large:", (await anext(large)).event)

    # Why did the last trade go to nobody?
    print(holdfast.parse("symbol = 'IBM' AND price < 120").explain(TRADES[-1]))


asyncio.run(main())
