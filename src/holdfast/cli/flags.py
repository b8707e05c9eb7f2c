"""Flags that follow from declared settings: their help."""

from typing import Any

import typer

from holdfast.model.settings import declared


def flag(kind: type, field: str, *names: str, unit: str = "", **more: Any) -> Any:
    """An option for a field of a settings class, described as the class declares it; `unit` if it has another one."""
    meaning = declared(kind)[field].setting.meaning
    return typer.Option(*names, help=f"{meaning[0].upper()}{meaning[1:]}{f', in {unit}' if unit else ''}.", **more)
