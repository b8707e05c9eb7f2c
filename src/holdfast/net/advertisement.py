"""A promise of a client about what it will publish."""

from holdfast.net.driver import Driver
from holdfast.protocol.effects import UnadvertiseCall


class Advertisement:
    """What a client has said that it will publish, until it is closed."""

    def __init__(self, driver: Driver, id_: str, condition: str) -> None:
        self.condition = condition
        self._driver: Driver | None = driver
        self._id = id_

    def close(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.give(UnadvertiseCall(self._id))
