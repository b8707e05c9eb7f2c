"""Which extra of ours brings a package: `pip install holdfast` alone is a client, and nothing but a client.

Packages are imported where they are used. Where one is missing, the error names the extra and how to install it. This
is the only list of them; `pyproject.toml` says what an extra installs, and a test holds the two against each other.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from holdfast.model.errors import MissingExtraError

# By the name that is imported. An extra includes those above it, but for zookeeper; nemesis and trust include broker.
EXTRA_OF = {
    "rich": "broker",
    "typer": "broker",
    "websockets": "broker",
    "duckdb": "sim",
    "llvmlite": "sim",
    "numba": "sim",
    "numpy": "sim",
    "pyarrow": "sim",
    "pandas": "spark",
    "pyspark": "spark",
    "kazoo": "zookeeper",
    "paho": "nemesis",
    "cryptography": "trust",
    "jwt": "trust",
    "nats": "nats",
    "aiomqtt": "mqtt",
    "redis": "redis",
    "aio_pika": "rabbitmq",
    "zenoh": "zenoh",
    "stomp": "stomp",
    "aiohttp": "console",
    "re2": "regex",
    "deltalake": "delta",
    "pyiceberg": "iceberg",
    "grpc": "connect",
}


def require(package: str) -> None:
    """Raise MissingExtraError unless this package is installed."""
    if find_spec(package) is None:
        raise _missing(package)


@contextmanager
def extras_named() -> Iterator[None]:
    """A package that an import inside does not find is named with its extra; other missing modules are left alone."""
    try:
        yield
    except ModuleNotFoundError as problem:
        package = (problem.name or "").partition(".")[0]
        if package not in EXTRA_OF or find_spec(package) is not None:
            raise
        raise _missing(package) from problem


def how_to_install(extra: str) -> str:
    return f"pip install 'holdfast[{extra}]'"


def _missing(package: str) -> MissingExtraError:
    advice = how_to_install(EXTRA_OF[package])
    return MissingExtraError(f"this needs {package}, which is not installed; add it with: {advice}", name=package)
