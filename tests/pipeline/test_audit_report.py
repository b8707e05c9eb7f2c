"""The folder that an audit leaves: tables that others read, and a report that stands alone."""

from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import duckdb
import pytest

from holdfast.model.errors import InputError
from tests.pipeline.audit_runs import WAYS
from tests.pipeline.browser import browser, laid_out_width, visit
from tests.pipeline.conftest import Audited, Compared


@pytest.fixture(scope="module")
def out(audited_traces: Audited, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, Any]]:
    """The audit of all traces, each with a report of its own, and what these show."""
    from holdfast.pipeline.audit.expectations import Expectation
    from holdfast.pipeline.audit.folder import audit_folder, write_tables
    from holdfast.pipeline.audit.slices import shown
    from holdfast.pipeline.report.files import write_reports

    expected = [Expectation("in the end", 0.9, 0.875, "share", "measured by hand", 0.125)]
    folder = tmp_path_factory.mktemp("audit") / "out"
    with audit_folder(folder, overwrite=False) as beside:
        audit = audited_traces.audit
        found = shown(audit)
        write_tables(audit, found, beside)
        write_reports(audit.runs, found, beside, expect=lambda run, shown: expected)
        assert not folder.exists()
    return folder, found


@pytest.fixture(scope="module")
def written(out: tuple[Path, Mapping[str, Any]]) -> Path:
    return out[0]


# Tables ------------------------------------------------------------------------------------------------------------


def rows(folder: Path, query: str) -> list[Any]:
    return duckdb.connect().execute(query.replace("$", str(folder))).fetchall()


def test_others_can_read_the_tables_and_find_the_same_figures(written: Path, audited_traces: Audited) -> None:
    run = audited_traces.runs["churn"]
    outcome = run.outcome
    for table in ("subscribers", "publishers", "pairs", "overall"):
        found = rows(written, f"SELECT sum(owed), sum(lost), sum(late) FROM '$/{table}/*.parquet' WHERE run = 'churn'")
        assert found == [(outcome.owed, outcome.lost, outcome.late)], table
    kinds = rows(written, "SELECT kind, sent, bytes FROM '$/messages/*.parquet' WHERE run = 'churn'")
    assert {kind: (sent, size) for kind, sent, size in kinds} == {
        kind: (counts["sent"], counts["bytes"]) for kind, counts in outcome.messages.items()
    }
    in_seconds = rows(
        written, "SELECT kind, sum(sent) FROM '$/message_seconds/*.parquet' WHERE run = 'churn' GROUP BY 1"
    )
    assert dict(in_seconds) == {kind: counts["sent"] for kind, counts in outcome.messages.items()}
    promises = rows(written, "SELECT promise, holds, broken FROM '$/promises/*.parquet' WHERE run = 'missing'")
    assert ("P4", False, 1) in promises


def test_publishers_tell_what_each_source_published_wanted_or_not(written: Path, audited_traces: Audited) -> None:
    found = rows(written, "SELECT source, published, owed FROM '$/publishers/*.parquet' WHERE run = 'swarm' ORDER BY 1")
    trace = audited_traces.folders["swarm"]
    query = "SELECT source, count(*) FROM '$/publications/*.parquet' GROUP BY source ORDER BY source"
    assert [(source, published) for source, published, _ in found] == rows(trace, query)
    assert sum(owed for _, _, owed in found) == audited_traces.runs["swarm"].outcome.owed


def test_seconds_add_up_to_the_run_and_stand_where_things_happened(written: Path, audited_traces: Audited) -> None:
    outcome = audited_traces.runs["churn"].outcome
    found = rows(
        written,
        "SELECT sum(published), sum(owed), sum(delivered), sum(lost), sum(late), sum(arrived), sum(fifo_violations) "
        "FROM '$/seconds/*.parquet' WHERE run = 'churn'",
    )
    arrived = outcome.delivered + outcome.unowed + outcome.duplicates
    counts = (outcome.published, outcome.owed, outcome.delivered, outcome.lost, outcome.late, arrived)
    assert found == [(*counts, outcome.fifo_violations)]
    query = "SELECT second, published, owed, delivered FROM '$/seconds/*.parquet' WHERE run = 'lives' AND second > 0"
    wanted = [(second, 1, 1 + (second >= 4), 2 * (second >= 5)) for second in range(1, 9)]
    assert sorted(rows(written, query)) == wanted


def test_distributions_count_every_delivery_and_every_place(written: Path) -> None:
    found = rows(written, "SELECT what, sum(count) FROM '$/distributions/*.parquet' WHERE run = 'orders' GROUP BY what")
    counts = dict(found)
    original = counts["original"]
    assert counts["recovered"] == sum(way != "original" for way in WAYS) + 1  # and a duplicate
    assert counts["displacement"] == original + counts["recovered"] - 1


# A failover, and links ---------------------------------------------------------------------------------------------


def test_a_failover_is_told_from_its_incidents_and_by_what_became_of_the_events(
    out: tuple[Path, Mapping[str, Any]],
) -> None:
    [found] = out[1]["replaced"].failovers
    assert (found.broker, found.replica) == ("b2", "b2+1")
    assert (found.failed_us, found.noticed_us, found.asked_us) == (2_000_000, 2_200_000, 2_450_000)
    assert (found.ready_us, found.over_us) == (3_000_000, 3_200_000)
    during, otherwise = found.during, found.otherwise  # events 4 to 6, and the seven others
    assert (during.owed, during.original, during.replica, during.recovered, during.missing) == (3, 1, 1, 1, 0)
    assert (during.delay_p50_us, during.delay_max_us) == (2_000_000, 2_500_000)
    assert (otherwise.owed, otherwise.original, otherwise.recovered, otherwise.missing) == (7, 6, 0, 1)
    assert found.recovered_for_it == 1
    assert out[1]["churn"].failovers == []  # a broker that comes back itself is none


def test_links_tell_what_they_carried_and_a_replica_counts_as_the_broker_it_replaces(
    out: tuple[Path, Mapping[str, Any]], audited_traces: Audited
) -> None:
    found = [(each.sender, each.receiver, each.sent, each.bytes, each.lost) for each in out[1]["replaced"].links]
    assert found == [("b1", "b2", 25, 900, 2), ("b2", "b1", 7, 0, 0), ("b2", "b3", 40, 0, 0)]
    live = out[1]["live"].links
    assert {(each.sender, each.receiver) for each in live} <= {("b1", "b2"), ("b2", "b1")}
    lost = audited_traces.runs["live"].outcome.messages["Publish"]["lost"]
    assert sum(each.lost for each in live) == lost > 0  # over TCP only events are lost
    assert out[1]["churn"].links == []


def test_violations_are_also_counted_as_events_reached_their_subscriber(audited_traces: Audited, written: Path) -> None:
    figures = audited_traces.runs["replaced"].figures
    assert (figures["behind"], figures["fifo_violations"], figures["held"]) == (2, 0, 4)  # the fourth and the fifth
    for name in ("churn", "orders"):  # where nothing is held back
        figures = audited_traces.runs[name].figures
        assert figures["behind"] == figures["fifo_violations"] > 0
    strict = audited_traces.runs["careful live"].figures
    assert strict["fifo_violations"] == 0 < strict["held"]
    reached = (
        "SELECT count(*) FROM '$/deliveries/*.parquet' AS late WHERE EXISTS (SELECT 1 FROM '$/deliveries/*.parquet' AS "
        "early WHERE early.subscriber = late.subscriber AND early.source = late.source AND early.seq > late.seq "
        "AND early.time_us - early.held_us < late.time_us - late.held_us)"
    )
    assert rows(audited_traces.folders["careful live"], reached) == [(strict["behind"],)]


def test_the_report_draws_network_and_failover_and_sets_predictions_beside_them(written: Path) -> None:
    page = (written / "report-replaced.html").read_text()
    network = ("b2 is replaced", 'aria-label="Network"', ">b3<", "6.2 %")  # two of 32 messages between b1 and b2
    for words in (*network, "waited for the replica", "1.20 s", "90.00 %", "87.50 % ± 12.50 %"):
        assert words in page, words
    assert 'aria-label="Network"' not in (written / "report-churn.html").read_text()


# The folder --------------------------------------------------------------------------------------------------------


def test_what_is_not_an_audit_is_never_replaced(written: Path, tmp_path: Path) -> None:
    from holdfast.pipeline.audit.folder import audit_folder

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(InputError, match=r"not part of an audit: thesis\.txt"), audit_folder(tmp_path / "mine", True):
        pass
    with pytest.raises(InputError, match="--overwrite"), audit_folder(written, False):
        pass
    with (
        pytest.raises(InputError, match="cannot be written"),
        audit_folder(tmp_path / "mine" / "thesis.txt" / "x", False),
    ):
        pass


def test_a_job_that_fails_leaves_the_old_audit_and_nothing_else(tmp_path: Path) -> None:
    from holdfast.pipeline.audit.folder import audit_folder

    old = tmp_path / "out"
    old.mkdir()
    (old / "report.html").write_text("old")
    with pytest.raises(ZeroDivisionError), audit_folder(old, True) as beside:
        (beside / "report.html").write_text("new")
        raise ZeroDivisionError
    assert (old / "report.html").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


# The report --------------------------------------------------------------------------------------------------------


class Links(HTMLParser):
    """Everything that a page could fetch, and the text of its cells."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[tuple[str, str | None]] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [each for each in attributes if each[0] in ("src", "href", "xlink:href", "data", "action")]


def test_the_report_refers_to_nothing_outside(written: Path, compared: Compared) -> None:
    for page in (written / "report-churn.html", compared.folder / "report.html"):
        found = Links()
        found.feed(page.read_text())
        assert found.fetched == []
        assert not {"script", "link", "iframe", "img"} & set(found.tags)
        assert "url(" not in page.read_text()
        assert "http://" not in page.read_text()


def test_the_report_tells_the_figures(written: Path, audited_traces: Audited) -> None:
    outcome, page = audited_traces.runs["churn"].outcome, (written / "report-churn.html").read_text()
    for number in (outcome.owed, outcome.lost, outcome.fifo_violations, outcome.messages["Publish"]["sent"]):
        assert f"{number:,}" in page
    assert "crash b2" in page
    broken = (written / "report-duplicate.html").read_text()
    assert '<span class="state broken">broken</span>' in broken
    assert "Nothing was owed" in (written / "report-quiet.html").read_text()


def test_names_in_a_trace_cannot_put_markup_into_the_report(tmp_path: Path) -> None:
    from holdfast.pipeline.report.delivery_charts import Curve, cumulated_delays
    from holdfast.pipeline.report.html_parts import card, page, table

    evil = "<script>alert(1)</script>"
    made = page(
        evil, "", card(evil, evil, ""), cumulated_delays([Curve(evil, "line-one", ((5, 1),))]), table([evil], [])
    )
    assert "<script>" not in made


def test_the_report_opens_in_a_browser_without_a_word_or_a_request(
    written: Path, compared: Compared, tmp_path: Path
) -> None:
    program = browser()
    if program is None:
        pytest.skip("there is no chromium here")
    for page in (written / "report-churn.html", written / "report-replaced.html", compared.folder / "report.html"):
        found = visit(program, page, tmp_path)
        assert (found.console, found.requests) == ([], [])
        assert "<svg" in found.dom
        assert laid_out_width(program, page, tmp_path, 700) <= 700, page


def test_a_page_that_fetches_complains_or_sticks_out_would_be_noticed(tmp_path: Path) -> None:
    program = browser()
    if program is None:
        pytest.skip("there is no chromium here")
    page = tmp_path / "page.html"
    wide = '<div style="width: 3000px">x</div>'
    fetch = '<img src="http://127.0.0.1:9/x.png">'
    page.write_text(f"<html><head><title></title></head><body>{wide}{fetch}<script>oops()</script></body></html>")
    found = visit(program, page, tmp_path)
    assert found.console
    assert found.requests == ["http://127.0.0.1:9/x.png"]
    assert laid_out_width(program, page, tmp_path, 700) >= 3000
