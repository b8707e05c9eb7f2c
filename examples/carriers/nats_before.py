"""Readings over NATS, before: python examples/carriers/nats_before.py nats://127.0.0.1:4222"""

import asyncio
import json
import sys

import nats


async def main(address: str) -> None:
    client = await nats.connect(address)
    readings = await client.subscribe("plant.north.*")
    for temp in (29, 31, 33):
        await client.publish("plant.north.oven", json.dumps({"temp": temp}).encode())
    for _ in range(3):
        reading = json.loads((await readings.next_msg(timeout=10)).data)
        if reading["temp"] > 30:
            print(reading["temp"])
    await client.close()


asyncio.run(main(sys.argv[1]))
