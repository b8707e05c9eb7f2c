"""Other people's clients of MQTT, with the lines of docs/mqtt.md: Python, C on the command line, JavaScript in Node and
in a browser.

`apt-get install mosquitto-clients nodejs npm chromium` and `npm install mqtt` bring them; `HOLDFAST_NODE_MODULES` names
the folder `node_modules` with MQTT.js.
"""

import asyncio
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

import holdfast
from holdfast import MqttSettings
from tests.net.harness import live
from tests.net.mqtt_client import MqttClient, mqtt_port

MODULES = Path(os.environ.get("HOLDFAST_NODE_MODULES", "node_modules"))
PAGE = Path(__file__).parents[2] / "docs" / "mqtt.md"
LISTEN = ("mqtt://127.0.0.1:0", "ws://127.0.0.1:0/mqtt")

needs_mosquitto = pytest.mark.skipif(
    shutil.which("mosquitto_sub") is None, reason="apt-get install mosquitto-clients brings mosquitto_sub"
)
needs_node = pytest.mark.skipif(
    shutil.which("node") is None or not (MODULES / "mqtt").exists(),
    reason="needs Node, and HOLDFAST_NODE_MODULES with MQTT.js (npm install mqtt)",
)
needs_chromium = pytest.mark.skipif(
    shutil.which("chromium") is None, reason="apt-get install chromium brings a browser"
)

# Tells when it is ready, and what it gets, so that the test sees it as another client does.
SCRIPT = """
const client = mqtt.connect(URL_OF_BROKER, { protocolVersion: 5 });
client.on("connect", () =>
  client.subscribe("market/#", { qos: 1, properties: { userProperties: { $where: "price > 5" } } }, () =>
    client.publish("seen/ready", WHO, { qos: 1 })));
client.on("message", (topic, payload, packet) =>
  client.publish("seen/event", `${packet.qos} ${topic} ${payload.toString()}`, { qos: 2 }));
"""


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[int, int]]:
    """The ports of a broker for MQTT and for WebSocket."""
    async with holdfast.Broker(LISTEN, mqtt=MqttSettings(json=("market/#",))) as broker:
        ws = next(each for each in broker.addresses if each.startswith("ws://"))
        yield mqtt_port(broker), int(ws.rpartition(":")[2].partition("/")[0])


@asynccontextmanager
async def running(*command: str) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=asyncio.subprocess.DEVNULL)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _sees_what_it_wants(port: int, command: Sequence[str]) -> None:
    """Publish to a client that says that it is ready; it answers with what it gets."""
    async with MqttClient(port, "judge") as judge, AsyncExitStack() as stack:
        await judge.subscribe("seen/#", qos=1)
        await stack.enter_async_context(running(*command))
        assert (await judge.event()).topic == "seen/ready"
        await judge.publish("market/a", b'{"price": 3}', 1)
        await judge.publish("market/b", b'{"price": 7}', 1)
        assert (await judge.event()).payload == b'1 market/b {"price": 7}'


@live
async def test_the_python_of_the_page_prints_what_it_wants() -> None:
    (block,) = re.findall(r"```python notest\n(.*?)```", PAGE.read_text(), re.DOTALL)
    async with AsyncExitStack() as stack:
        port, _ = await stack.enter_async_context(serving())
        judge = await stack.enter_async_context(MqttClient(port, "judge"))
        program = block.replace("1883", str(port))
        client = await stack.enter_async_context(running(sys.executable, "-u", "-c", program))
        assert client.stdout is not None
        line = asyncio.create_task(client.stdout.readline())
        while not line.done():  # until it has subscribed
            await judge.publish("market/a", b'{"price": 3}', 1)
            await judge.publish("market/ibm", b'{"price": 8}', 1)
            await asyncio.sleep(0.05)
        assert await line == b"market/ibm b'{\"price\": 8}'\n"


@needs_mosquitto
@pytest.mark.parametrize("version", ["311", "5"])
@pytest.mark.parametrize("qos", ["0", "1", "2"])
@live
async def test_mosquitto_sub_and_mosquitto_pub(version: str, qos: str) -> None:
    async with serving() as (port, _):
        where = ["-t", "market/#", "-D", "SUBSCRIBE", "user-property", "$where", "price > 5"]
        wants = where if version == "5" else ["-t", "?price > 5/market/#"]
        common = "-V", version, "-p", str(port), "-q", qos
        async with running("stdbuf", "-oL", "mosquitto_sub", "-d", *common, *wants, "-C", "1") as sub:
            assert sub.stdout is not None
            while b"SUBACK" not in await sub.stdout.readline():
                pass
            for payload in ('{"price": 3}', '{"price": 7}'):
                async with running("mosquitto_pub", *common, "-t", "market/ibm", "-m", payload) as pub:
                    assert await pub.wait() == 0
            told = await sub.stdout.read()
            assert b'{"price": 7}' in told and b'{"price": 3}' not in told
            assert await sub.wait() == 0


@needs_mosquitto
@live
async def test_mosquitto_sub_shares_a_subscription() -> None:
    async with serving() as (port, _):
        shares = (
            "stdbuf",
            "-oL",
            "mosquitto_sub",
            "-V",
            "5",
            "-q",
            "1",
            "-p",
            str(port),
            "-t",
            "$share/workers/jobs/#",
            "-C",
            "2",
        )
        async with running(*shares, "-d") as one, running(*shares, "-d") as two:
            for each in (one, two):
                assert each.stdout is not None
                while b"SUBACK" not in await each.stdout.readline():
                    pass
            async with MqttClient(port, "pub") as pub:
                for number in range(4):
                    await pub.publish("jobs/a", b"job %d" % number, 1)
            told = [await each.stdout.read() for each in (one, two) if each.stdout is not None]
            assert sorted(line for each in told for line in each.split(b"\n") if line.startswith(b"job")) == [
                b"job %d" % number for number in range(4)
            ]


@needs_node
@pytest.mark.slow
@pytest.mark.parametrize("transport", ["mqtt", "ws"])
@live
async def test_mqtt_js_in_node(tmp_path: Path, transport: str) -> None:
    async with serving() as (port, ws_port):
        url = f"mqtt://127.0.0.1:{port}" if transport == "mqtt" else f"ws://127.0.0.1:{ws_port}/mqtt"
        script = tmp_path / "client.cjs"
        head = f'const mqtt = require({str(MODULES / "mqtt")!r});\nconst URL_OF_BROKER = "{url}", WHO = "node";\n'
        script.write_text(head + SCRIPT)
        await _sees_what_it_wants(port, ["node", str(script)])


@needs_node
@needs_chromium
@pytest.mark.slow
@live
async def test_mqtt_js_in_a_browser(tmp_path: Path) -> None:
    async with serving() as (port, ws_port):
        library = (MODULES / "mqtt" / "dist" / "mqtt.min.js").as_uri()
        page = tmp_path / "page.html"
        head = f'const URL_OF_BROKER = "ws://127.0.0.1:{ws_port}/mqtt", WHO = "browser";\n'
        page.write_text(f'<script src="{library}"></script><script>\n{head}{SCRIPT}</script>')
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
        await _sees_what_it_wants(port, ["chromium", *flags, f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()])
