"""The options that every verb on Spark has: where it runs, and Spark's own settings and packages."""

from collections.abc import Iterable
from enum import Enum
from typing import Annotated

import typer

from holdfast.model.errors import InputError

Master = Annotated[str | None, typer.Option(help="Spark's master, such as spark://host:7077.")]
Conf = Annotated[list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A Spark setting.")]
Packages = Annotated[
    list[str] | None,
    typer.Option(metavar="GROUP:NAME:VERSION", help="A package for Spark's JVM, such as a file system or a format."),
]
To = Annotated[
    str | None,
    typer.Option(
        metavar="FORMAT:PLACE",
        help="Tables instead of a folder: delta:/lake/wanted, iceberg:catalog.namespace, parquet:s3a://bucket/wanted.",
    ),
]
Append = Annotated[bool, typer.Option("--append", help="With --to: add to tables that are there already.")]
_PACKAGES = "spark.jars.packages"


class EngineChoice(Enum):
    SPARK = "spark"
    EMBEDDED = "embedded"


def check_engine(engine: EngineChoice | None, master: str | None, settings: dict[str, str]) -> None:
    if engine is EngineChoice.EMBEDDED and (master is not None or settings):
        raise InputError("--master, --conf and --packages are Spark's; leave them out, or give --engine spark")


def spark_settings(conf: Iterable[str] | None, packages: Iterable[str] | None) -> dict[str, str]:
    """Spark's settings from `--conf` and `--packages`, as spark-submit takes them."""
    settings = pairs("--conf", conf)
    named = list(packages or ())
    odd = [each for name in named for each in name.split(",") if each.count(":") != 2]
    if odd:
        raise InputError(f"--packages: expected GROUP:NAME:VERSION, found {', '.join(odd)}")
    if named:
        settings[_PACKAGES] = ",".join([*filter(None, [settings.get(_PACKAGES)]), *named])
    return settings


def pairs(option: str, given: Iterable[str] | None) -> dict[str, str]:
    odd = [each for each in given or () if "=" not in each]
    if odd:
        raise InputError(f"{option}: expected KEY=VALUE, found {', '.join(odd)}")
    return dict(each.split("=", 1) for each in given or ())
