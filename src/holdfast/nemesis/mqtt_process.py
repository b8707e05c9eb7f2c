"""A client of MQTT as a process of its own: Paho, with quality of service 1 and a session that lasts.

It keeps the same journal as a native client (`client_process`). An event is the JSON of its attributes and its name. A
publication is flushed when Paho has its PUBACK, and a delivery is written down before Paho acknowledges it. Each
subscription has a filter of its own that matches every event, and its condition beside it.

Paho sends what is published between its CONNECT and CONNACK at once, ahead of all that it sends again after CONNACK. A
broker keeps the order in which it is sent to, so nothing is published from a CONNECT until those before it are
acknowledged; without a connection publications wait in Paho, which keeps their order.
"""

import asyncio
import json
import signal
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from holdfast.nemesis.client_process import FLUSH_S, ClientPlan, WorkloadPace
from holdfast.nemesis.journal import JournalWriter, fingerprint, now_us
from holdfast.nemesis.node_process import Command, Commands
from holdfast.net.address import parse_address
from holdfast.net.event_loop import run as run_loop
from holdfast.network.load import load

_NAME = "nemesis_id"  # of an event, beside its attributes
_LEVELS = ("n", "e", "m", "e", "s", "i", "s")  # of the topic, which has a filter for each choice of places with a +
FILTERS = 2 ** (len(_LEVELS) - 1)  # more subscriptions than a run gives to one client
_SESSION_S = 3_600
_SLOW_S = 0.02  # for each event: fifty a second, slower than the workload
_STOP_S = 10.0  # for the last events to be acknowledged
_TURN_S = 0.005  # between looks whether the next event may be published: shorter than the time between two events


def _properties(packet: int) -> Any:
    return Properties(packet)  # type: ignore[no-untyped-call]


def filter_of(number: int) -> str:
    """The filter of the how-many-th subscription; all are different, and match every event."""
    return "/".join(["+" if at and number >> (at - 1) & 1 else level for at, level in enumerate(_LEVELS)])


class MqttProcess:
    def __init__(self, plan: ClientPlan, commands: Commands) -> None:
        self._plan = plan
        self._commands = commands
        self._journal = JournalWriter(plan.journal)
        self._network = load(plan.file, plan.settings)
        self.paho = paho.Client(CallbackAPIVersion.VERSION2, plan.name, protocol=paho.MQTTv5)
        self._keys: dict[int, str] = {}  # of subscriptions, by identifier
        self._number = 0  # of the last subscription
        self._answers: dict[int, threading.Event] = {}  # SUBACKs that are waited for
        self._lock = threading.Lock()
        self._unacknowledged: dict[int, int] = {}  # numbers of events, by Paho's own
        self._early: set[int] = set()  # acknowledged before Paho had told us its number
        self._published = self._flushed = 0
        self._turn = threading.Lock()  # no CONNECT is sent while an event is handed to Paho
        self._resending = False  # from a CONNECT until all that was published before it is acknowledged
        self._slow_until_us = 0
        self._pace = WorkloadPace(self._network, plan)
        self._publishing: asyncio.Task[None] | None = None
        self._flushing: asyncio.Task[None] | None = None
        self.paho.on_connect, self.paho.on_message = self._on_connect, self._on_message
        self.paho.on_publish, self.paho.on_subscribe = self._on_publish, self._on_subscribe
        self.paho.on_unsubscribe = self._on_unsubscribe
        self.paho.on_pre_connect = self._on_pre_connect
        self.paho.on_connect_fail = self.paho.on_disconnect = self._on_no_connection
        self.paho.reconnect_delay_set(1, 1)

    async def run(self) -> None:
        self._journal.write("begin", node=self._plan.name, life=self._plan.life)
        address = parse_address(self._plan.address)
        lasting = _properties(PacketTypes.CONNECT)
        lasting.SessionExpiryInterval = _SESSION_S
        for key, condition in self._plan.subscriptions.items():  # its session may have events for them
            self._note(key, condition)
        self.paho.connect_async(address.host, address.port, 5, clean_start=False, properties=lasting)
        self.paho.loop_start()
        for identifier, key in list(self._keys.items()):
            await self._subscribe(identifier, self._plan.subscriptions[key])
        await self._drop(range(self._number + 1, FILTERS))  # those of an earlier life
        spec = next((each for each in self._network.clients if each.id == self._plan.name), None)
        if spec is not None and spec.publishes:
            self._publishing = asyncio.create_task(self._publish())
            self._flushing = asyncio.create_task(self._keep_flushing())
        self._commands.answer(ready=True)
        await self._commands.obey(self._do)

    def _on_connect(self, client: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        self._journal.write("state", state=str(reason), reason="", resumed=bool(flags.session_present))
        with self._lock:
            self._resending = bool(self._unacknowledged)

    def _on_pre_connect(self, client: Any, data: Any) -> None:
        with self._turn:
            self._resending = True

    def _on_no_connection(self, *about: Any) -> None:
        self._resending = False

    # Publishing ----------------------------------------------------------------------------------

    async def _publish(self) -> None:
        async for planned in self._pace.events():
            while not self.published_in_turn(planned.attributes):
                await asyncio.sleep(_TURN_S)

    def published_in_turn(self, event: dict[str, Any]) -> bool:
        """Publish it, unless Paho would send it ahead of earlier ones."""
        with self._turn:
            if self._resending:
                return False
            self._published += 1
            id_ = f"{self._plan.name}/{self._plan.life}/{self._published}"
            self._journal.write("pub", id=id_, event=event, print=fingerprint(event))
            described = _properties(PacketTypes.PUBLISH)
            described.ContentType = "application/json"
            payload = json.dumps({**event, _NAME: id_})
            # Paho calls back with its own lock, so it is not called with the one that its callbacks for PUBACK take.
            mid = self.paho.publish("/".join(_LEVELS), payload, 1, properties=described).mid
            with self._lock:
                if mid in self._early:
                    self._early.discard(mid)
                else:
                    self._unacknowledged[mid] = self._published
            self._journal.write("sent", id=id_, seq=self._published)
            return True

    def _on_publish(self, client: Any, data: Any, mid: int, reason: Any, properties: Any) -> None:
        with self._lock:
            if self._unacknowledged.pop(mid, None) is None:
                self._early.add(mid)
            if not self._unacknowledged:
                self._resending = False

    async def _keep_flushing(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S)
            self._flush()

    def _flush(self) -> None:
        """All up to the first that is not acknowledged are at the broker."""
        with self._lock:
            upto = min(self._unacknowledged.values(), default=self._published + 1) - 1
        if upto > self._flushed:
            self._flushed = upto
            self._journal.write("flushed", upto=upto)

    async def _stop_publishing(self) -> None:
        for task in (self._publishing, self._flushing):
            if task is not None:
                task.cancel()
        end_us = now_us() + int(_STOP_S * 1e6)
        while self._unacknowledged and now_us() < end_us:
            await asyncio.sleep(0.05)
        self._flush()

    def _doubt(self) -> None:
        """What has no PUBACK when we leave may be lost, and an application knows that from Paho."""
        with self._lock:
            left = sorted(self._unacknowledged.values())
        for number in left:
            self._journal.write("unflushed", first=number, last=number, text="no PUBACK")

    # Subscribing ---------------------------------------------------------------------------------

    def _note(self, key: str, condition: str) -> int:
        """A new subscription; its identifier, which no earlier life has used for another one."""
        self._number += 1
        lasts = self._number <= len(self._plan.subscriptions)
        identifier = self._number if lasts else (self._plan.life + 1) * FILTERS + self._number
        self._keys[identifier] = key
        self._journal.write("sub", sub=key, condition=condition)
        return identifier

    async def _subscribe(self, identifier: int, condition: str) -> None:
        asked = _properties(PacketTypes.SUBSCRIBE)
        asked.SubscriptionIdentifier = identifier
        asked.UserProperty = ("$where", condition)
        while True:  # one that was asked for while there was no connection is not sent by Paho
            _, mid = self.paho.subscribe(filter_of(identifier % FILTERS), 1, properties=asked)
            answer = self._answers.setdefault(mid, threading.Event()) if mid is not None else threading.Event()
            if await asyncio.to_thread(answer.wait, 1.0):
                break
        if identifier in self._keys:  # else it was dropped meanwhile
            self._journal.write("subscribed", sub=self._keys[identifier])

    async def _unsubscribe(self, key: str) -> None:
        """What comes for it from now on is not wanted, whenever the broker learns of it."""
        identifier = next(identifier for identifier, each in self._keys.items() if each == key)
        del self._keys[identifier]
        self._journal.write("unsub", sub=key)
        number = identifier % FILTERS
        await self._drop(range(number, number + 1))

    async def _drop(self, numbers: range) -> None:
        while True:
            _, mid = self.paho.unsubscribe(list(map(filter_of, numbers)))
            answer = self._answers.setdefault(mid, threading.Event()) if mid is not None else threading.Event()
            if await asyncio.to_thread(answer.wait, 1.0):
                return

    def _on_unsubscribe(self, client: Any, data: Any, mid: int, reasons: Any, properties: Any) -> None:
        self._answers.setdefault(mid, threading.Event()).set()

    def _on_subscribe(self, client: Any, data: Any, mid: int, reasons: Any, properties: Any) -> None:
        if any(each.is_failure for each in reasons):
            self._journal.write("refused", text=str(reasons))
            return
        self._answers.setdefault(mid, threading.Event()).set()

    def _on_message(self, client: Any, data: Any, message: Any) -> None:
        event = json.loads(message.payload)
        id_, at_us = event.pop(_NAME), now_us()
        printed = fingerprint(event)
        keys = [self._keys.get(each) for each in getattr(message.properties, "SubscriptionIdentifier", ())]
        lines = [
            {"k": "got", "t": at_us, "sub": key, "id": id_, "print": printed, "via": "mqtt"} for key in keys if key
        ]
        self._journal.write_all(lines)
        if now_us() < self._slow_until_us:
            threading.Event().wait(_SLOW_S)

    # What it is told -----------------------------------------------------------------------------

    async def _do(self, command: Command) -> None:
        match command["do"]:
            case "subscribe":
                await self._subscribe(self._note(command["sub"], command["condition"]), command["condition"])
            case "unsubscribe":
                await self._unsubscribe(command["sub"])
            case "burst":
                self._pace.burst += command["events"]
            case "slow":
                self._slow_until_us = now_us() + command["for_us"]
            case "stop publishing":
                await self._stop_publishing()
                self._commands.answer(stopped=True)
            case "state":
                self._commands.answer(settled=self.paho.is_connected() and not self._unacknowledged)
            case "close":
                await self._stop_publishing()
                self._doubt()
                with suppress(RuntimeError):
                    self.paho.disconnect()
                    await asyncio.to_thread(self.paho.loop_stop)
                self._journal.write("end")


def run(plan: ClientPlan, pipe: Connection) -> None:
    """What the process does; the nemesis starts it, and stops it: Ctrl-C is meant for the nemesis."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    run_loop(_serve(plan, pipe))


async def _serve(plan: ClientPlan, pipe: Connection) -> None:
    await MqttProcess(plan, Commands(pipe)).run()
