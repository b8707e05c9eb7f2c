"""Readings over MQTT, after, without async: python examples/carriers/mqtt_after.py mqtt://127.0.0.1:1883"""

import sys

import holdfast

PLANT = {"space": "plant", "lanes": "plant/{site}/{kind}", "body": "json"}

with holdfast.connect_sync(sys.argv[1], **PLANT, recovery="end-to-end", order="strict") as client:
    hot = client.subscribe("site = 'north' AND temp > 30")
    client.flush()
    for temp in (29, 31, 33):
        client.publish({"site": "north", "kind": "oven", "temp": temp})
    for _ in range(2):
        print(hot.next(timeout=10).event["temp"])
    print("lost:", client.losses().take())
