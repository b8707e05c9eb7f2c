"""Which events of a link that repairs its losses the broker has: it says so when it is asked.

On other links nothing is asked and nobody waits: what they lose is lost, or they lose nothing.
"""

import asyncio

from holdfast.net.client_driver import ClientDriver
from holdfast.protocol.effects import FlushCall
from holdfast.protocol.node import ClientMachine

_LOOK_S = 0.002  # a broker nearby has answered by then


class Confirmations:
    def __init__(self, machine: ClientMachine, driver: ClientDriver) -> None:
        self._machine = machine
        self._driver = driver

    def has(self, sent: int) -> bool:
        """Whether the broker is known to have so many events of the present link; if not, it is asked."""
        confirmed = self._machine.sent_and_confirmed[1] >= sent
        if not confirmed:
            self._driver.give(FlushCall())
        return confirmed

    async def waited(self) -> bool:
        """Wait until no event that the broker may lack is about to be forgotten; False if that was not necessary."""
        waits = False
        while self._machine.has_sent_enough:
            waits = True
            self._driver.give(FlushCall())
            await asyncio.sleep(_LOOK_S)
        return waits
