"""`holdfast init`: write a network file to begin with."""

import json
from pathlib import Path
from typing import Annotated

import typer

from holdfast.model.errors import InputError
from holdfast.network.presets import PRESETS, preset_text


def run(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = Path("net.toml"),
    preset: Annotated[str, typer.Option(help=f"One of {', '.join(PRESETS)}.")] = "quickstart",
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write a network file to begin with. Its comments say what can be changed.

    \b
    Example:
      holdfast init --preset epidemic-100 net.toml
    """
    text = preset_text(preset)
    try:
        with open(path, "w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InputError(f"{path} exists already; choose another name, or --force to overwrite it") from None
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror or error})") from None
    if as_json:
        print(json.dumps({"path": str(path), "preset": preset}))
    else:
        print(f"{path}: {preset}, {PRESETS[preset]}\nnext: holdfast check {path}")
