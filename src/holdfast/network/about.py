"""What a trace says of the run that made it: enough to run it again."""

from holdfast import __version__
from holdfast.network.schema import Network


def about_run(network: Network, driver: str, seed: int) -> dict[str, str | int]:
    return {
        "name": network.name,
        "driver": driver,
        "version": __version__,
        "seed": seed,
        "file": network.text,
    }
