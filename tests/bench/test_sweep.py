"""The sweep bench's section of the page is what its saved result makes, and says when the target is missed."""

import json
from pathlib import Path

from bench import sweep
from bench.page import PAGE, put_section
from bench.results import saved_at


def test_the_page_is_what_the_saved_result_makes() -> None:
    saved = json.loads(saved_at("sweep").read_text())
    assert sweep.section(saved).strip() in PAGE.read_text()


def test_a_target_that_is_missed_is_said_to_be(tmp_path: Path) -> None:
    saved = json.loads(saved_at("sweep").read_text())
    page = tmp_path / "page.md"
    page.write_text("before")
    put_section("sweep", sweep.section(saved | {"holds": False}), page)
    assert "does NOT hold" in page.read_text()
