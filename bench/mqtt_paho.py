"""The same with Paho, as an application has it: one client publishes, one subscribes, each with a thread of its own."""

import threading
import time

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from bench.mqtt_load import IN_FLIGHT
from bench.mqtt_systems import MqttServer

_PATIENCE_S = 60.0


def _client(server: MqttServer, name: str) -> mqtt.Client:
    client = mqtt.Client(CallbackAPIVersion.VERSION2, name)
    client.max_inflight_messages_set(IN_FLIGHT)
    client.max_queued_messages_set(0)
    client.connect("127.0.0.1", server.port)
    return client


def through_paho(server: MqttServer, topic: str, payload: bytes, qos: int, count: int) -> tuple[float, float]:
    """Seconds until the subscriber had all events, and CPU seconds of the broker."""
    left, ready, done = count, threading.Event(), threading.Event()

    def on_message(client: mqtt.Client, data: object, message: mqtt.MQTTMessage) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    sub, pub = _client(server, "paho-sub"), _client(server, "paho-pub")
    sub.on_message = on_message
    sub.on_subscribe = lambda *about: ready.set()
    sub.loop_start()
    pub.loop_start()
    try:
        sub.subscribe(topic, qos)
        if not ready.wait(_PATIENCE_S):
            raise RuntimeError("no SUBACK")
        cpu_s, began_s = server.cpu_s(), time.monotonic()
        for _ in range(count):
            pub.publish(topic, payload, qos)
        if not done.wait(_PATIENCE_S):
            raise RuntimeError(f"{left:,} of {count:,} did not come")
        return time.monotonic() - began_s, server.cpu_s() - cpu_s
    finally:
        for client in (pub, sub):
            client.disconnect()
            client.loop_stop()
