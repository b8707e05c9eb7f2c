"""The process that `embedded` starts: a gateway until standard input ends."""

import asyncio
import json
import os
from pathlib import Path

from holdfast.gateway.dialling import BusSpace, addresses_of
from holdfast.gateway.gateway import Gateway, GatewaySettings
from holdfast.model.errors import HoldfastError
from holdfast.net.address import parse_address
from holdfast.net.event_loop import run
from holdfast.net.tls import TlsFiles


def serve(folder: str, listen: str, brokers: str, tls: str, bus: str) -> None:
    """Says in one line of JSON where it listens, or what is wrong."""
    try:
        places = addresses_of(json.loads(brokers)), (parse_address(listen),)
        how = TlsFiles(*json.loads(tls)), BusSpace(*json.loads(bus))
        settings = GatewaySettings(Path(folder), *places, tls=how[0], bus=how[1])
        run(_serve(settings))
    except HoldfastError as problem:
        print(json.dumps({"problem": str(problem)}), flush=True)


async def _serve(settings: GatewaySettings) -> None:
    gateway = Gateway(settings)
    await gateway.start()
    print(json.dumps({"listen": str(gateway.listening[0])}), flush=True)
    await asyncio.to_thread(_wait_for_the_end_of_input)
    await gateway.stop()


def _wait_for_the_end_of_input() -> None:
    while os.read(0, 1_024):
        pass
