"""Write the frames of this version: `python -m tests.golden.wire 0.3`."""

import json
import sys
from pathlib import Path
from typing import Any

from tests.wire.golden import MESSAGES, SIGNALS

HERE = Path(__file__).parent


def frames() -> dict[str, list[dict[str, str]]]:
    tables: dict[str, list[tuple[str, Any]]] = {"messages": [*MESSAGES], "signals": [*SIGNALS]}
    return {
        name: [{"kind": type(each).__name__, "frame": frame.replace(" ", "")} for frame, each in table]
        for name, table in tables.items()
    }


if __name__ == "__main__":
    (HERE / f"wire-{sys.argv[1]}.json").write_text(json.dumps(frames(), indent=1) + "\n")
