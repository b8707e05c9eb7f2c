"""Makes the pictures of docs/console.md: the console of the demo's network, half a minute after it began."""

import tempfile
from pathlib import Path
from time import sleep

from holdfast.network.presets import preset_text
from tests.console.browsers import console_of, drive
from tests.house.tree import ROOT

_SETTLED_S = 40.0  # until charts have something to show

if __name__ == "__main__":
    docs = ROOT / "docs"
    with tempfile.TemporaryDirectory() as folder:
        network = Path(folder) / "demo-12.toml"
        network.write_text(preset_text("demo-12"))
        with console_of(
            network, "--duration", "120", "--set", "workload.stop_s=110", "--set", "fault.0.at_s=20"
        ) as url:
            sleep(_SETTLED_S)
            shots = (
                f"map:1240:760:light:{docs / 'console-map.png'}:broker/paris",
                f"streams:1240:760:dark:{docs / 'console-streams.png'}",
            )
            print(drive("pictures.mjs", "chromium", url, *shots))
