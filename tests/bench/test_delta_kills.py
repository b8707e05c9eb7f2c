"""The section about killed drivers is what its saved result makes, and the result is one of an honest table."""

import json

from bench import delta_kills
from bench.page import PAGE
from bench.results import saved_at


def test_the_page_shows_the_saved_result_and_the_table_was_right() -> None:
    saved = json.loads(saved_at("delta_kills").read_text())
    assert delta_kills.section(saved).strip() in PAGE.read_text()
    assert len(saved["kills"]) >= 50
    assert saved["end"] == {"pairs": saved["owed"], "twice": 0, "not owed": 0, "missing": 0}
