"""A broker, a subscriber with two conditions of its own, and a publisher, in one program.

    ./run python examples/quickstart.py

Usually a broker is a process of its own (`holdfast broker`), and clients only need its address.
"""

import asyncio

import holdfast
from holdfast.net.address import parse_address
from holdfast.net.node import BrokerNode
from holdfast.net.settings import NodeSettings

TRADES = [
    {"class": "stock", "symbol": "IBM", "price": 119.5, "volume": 300},
    {"class": "stock", "symbol": "IBM", "price": 131.0, "volume": 20_000},
    {"class": "stock", "symbol": "MSFT", "price": 41.0, "volume": 100},
]


async def main() -> None:
    broker = BrokerNode(NodeSettings("b1", (parse_address("tcp://127.0.0.1:0"),)))
    await broker.start()
    address = str(broker.listening[0])

    async with holdfast.connect(address, name="feed") as feed, holdfast.connect(address, name="desk") as desk:
        cheap = desk.subscribe("symbol = 'IBM' AND price < 120")
        large = desk.subscribe("class = 'stock' AND (volume > 10000 OR price > 1000)")
        await desk.flush()  # the broker knows both conditions now

        for trade in TRADES:
            await feed.publish(trade)
        print("cheap:", (await anext(cheap)).event)
        print("large:", (await anext(large)).event)

    await broker.stop()

    # Why did the last trade go to nobody?
    print(holdfast.parse("symbol = 'IBM' AND price < 120").explain(TRADES[-1]))


asyncio.run(main())
