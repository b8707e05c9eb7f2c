"""Readings over MQTT, before: python examples/carriers/mqtt_before.py 127.0.0.1 1883"""

import asyncio
import json
import sys

import aiomqtt


async def main(host: str, port: str) -> None:
    async with aiomqtt.Client(host, int(port)) as client:
        await client.subscribe("plant/north/+")
        for temp in (29, 31, 33):
            await client.publish("plant/north/oven", json.dumps({"temp": temp}))
        for _ in range(3):
            reading = json.loads((await anext(client.messages)).payload)
            if reading["temp"] > 30:
                print(reading["temp"])


asyncio.run(main(*sys.argv[1:]))
