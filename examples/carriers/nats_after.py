"""Readings over NATS, after: conditions, recovery and order. python examples/carriers/nats_after.py nats://127.0.0.1:4222"""

import asyncio
import sys

import holdfast

PLANT = {"space": "plant", "lanes": "plant.{site}.{kind}", "body": "json"}


async def main(address: str) -> None:
    async with holdfast.connect(address, **PLANT, recovery="end-to-end", order="strict") as client:
        hot = client.subscribe("site = 'north' AND temp > 30")
        await client.flush()
        for temp in (29, 31, 33):
            await client.publish({"site": "north", "kind": "oven", "temp": temp})
        for _ in range(2):
            print((await hot.next(timeout=10)).event["temp"])
        print("lost:", client.losses().take())


asyncio.run(main(sys.argv[1]))
