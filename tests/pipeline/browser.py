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
    requests: list[str]  # addresses other than files
    dom: str
    width: int  # of what is laid out, which is more than the window's when something sticks out


_BROWSER = "not an origin"  # what the browser asks for by itself, such as the time, has no page behind it


def _events(log: Path) -> list[dict[str, Any]]:
    """The browser may leave without closing the list."""
    text = log.read_text().rstrip().removesuffix(",")
    try:
        found: list[dict[str, Any]] = json.loads(text)["events"]
    except json.JSONDecodeError:
        found = json.loads(f"{text}]}}")["events"]
    return found


def visit(program: str, page: Path, folder: Path, width: int = 1400) -> Visit:
    log = folder / f"net-{width}.json"
    probe = folder / f"probe-{width}.html"  # tells how wide the page becomes, as text that --dump-dom shows
    told = "<script>document.title = document.documentElement.scrollWidth</script>"
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text())
    probe.write_text(text.replace("</body>", f"{told}</body>"))
    options = [f"--user-data-dir={folder / 'profile'}", f"--window-size={width},1000"]

    def run(path: Path, *more: str) -> subprocess.CompletedProcess[str]:
        command = [program, *_QUIET, *options, *more, "--dump-dom", path.as_uri()]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)

    done = run(page, f"--log-net-log={log}", "--enable-logging=stderr", "--v=0")
    console = re.findall(r"CONSOLE.*", done.stderr)
    asked = [event.get("params", {}) for event in _events(log)]
    outside = {each["url"] for each in asked if each.get("initiator", _BROWSER) != _BROWSER and "url" in each}
    title = re.search(r"<title>(.*?)</title>", run(probe).stdout)
    assert title is not None
    return Visit(console, sorted(outside), done.stdout, int(json.loads(title[1])))
