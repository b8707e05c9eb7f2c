"""A page in a real browser: what it writes on the console, and what it asks the network for."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
)


def browser() -> str | None:
    return next(filter(None, map(shutil.which, _NAMES)), None)


@dataclass(frozen=True)
class Visit:
    console: list[str]
    requests: list[str]  # addresses that the page asked for, other than its own file
    dom: str


def visit(program: str, page: Path, folder: Path) -> Visit:
    log = folder / "net.json"
    done = _run(program, page, folder, 1400, f"--log-net-log={log}", "--enable-logging=stderr", "--v=0")
    asked = [event.get("params", {}) for event in _events(log)]
    outside = {each["url"] for each in asked if each.get("initiator", _BROWSER) != _BROWSER and "url" in each}
    return Visit(re.findall(r"CONSOLE.*", done.stderr), sorted(outside), done.stdout)


_BROWSER = "not an origin"  # what the browser asks for by itself, such as the time, has no page behind it


def _events(log: Path) -> list[dict[str, Any]]:
    """The browser may leave without closing the list."""
    text = log.read_text().rstrip().removesuffix(",")
    try:
        found: list[dict[str, Any]] = json.loads(text)["events"]
    except json.JSONDecodeError:
        found = json.loads(f"{text}]}}")["events"]
    return found


def laid_out_width(program: str, page: Path, folder: Path, width: int) -> int:
    """More than the window's width when something sticks out. A copy of the page tells it, in its title."""
    probe = folder / "probe.html"
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text())
    told = "<script>document.title = document.documentElement.scrollWidth</script>"
    probe.write_text(text.replace("</body>", f"{told}</body>"))
    title = re.search(r"<title>(\d+)</title>", _run(program, probe, folder, width).stdout)
    assert title is not None
    return int(title[1])


def screenshot(program: str, page: Path, folder: Path, width: int, height: int = 2600) -> Path:
    """A picture of the page, beside it."""
    picture = folder / f"{page.stem}-{width}.png"
    options = [f"--user-data-dir={folder / 'profile'}", f"--window-size={width},{height}", "--hide-scrollbars"]
    command = [program, *_QUIET, *options, f"--screenshot={picture}", page.as_uri()]
    subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return picture


def _run(program: str, page: Path, folder: Path, width: int, *more: str) -> subprocess.CompletedProcess[str]:
    options = [f"--user-data-dir={folder / 'profile'}", f"--window-size={width},1000", *more]
    command = [program, *_QUIET, *options, "--dump-dom", page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
