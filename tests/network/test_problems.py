"""Everything that can be wrong with a network file is told with its line and key, what was expected and a way out."""

import copy
import pickle
import re
import tomllib
from typing import Any

import pytest

from holdfast.network.limits import PROBLEMS_MAX, PROBLEMS_SHOWN_MAX
from holdfast.network.load import load, parse_text
from holdfast.network.problems import NetworkError
from tests.network.examples import FULL, TREE, only_problem, problems_of


def changed(line: str, to: str) -> str:
    assert FULL.count(line) == 1, line
    return FULL.replace(line, to)


def test_the_example_is_accepted() -> None:
    assert parse_text(FULL).warnings == ()


WRONG = [
    # key, what is replaced, by what, what the message says, what it suggests
    ("duration", "duration_s = 20", "duration = 20", "unknown key", 'did you mean "duration_s"?'),
    ("topolgy", "[protocol]", "[topolgy]", "unknown key", "the keys here are name, seed"),
    ("links.los", "loss = 0.02", "los = 0.02", "unknown key", 'did you mean "loss"?'),
    ("links.loss", "loss = 0.02", "loss = 2", "found 2, expected a number from 0 to 1", "write 2 % as 0.02"),
    ("links.loss", "loss = 0.02", "loss = -0.1", "found -0.1, expected a number from 0 to 1", ""),
    ("links.loss", "loss = 0.02", "loss = nan", "found nan", ""),
    ("links.loss", "loss = 0.02", 'loss = "0.02"', 'found "0.02", expected a number', "write it without quotes"),
    ("links.loss", "loss = 0.02", "loss = true", "found true, expected a number", ""),
    ("links.loss", "loss = 0.02", "loss = [0.2, 0.1]", "lower bound 0.2 is above", "write [low, high]"),
    ("links.delay_ms", "[5, 10]", "[5]", "found a list of 1", "write [low, high]"),
    ("links.delay_ms.1", "[5, 10]", "[5, 1e9]", "expected a number of milliseconds from 0 to 3,600,000", ""),
    ("links.jitter_ms", "jitter_ms = 2", "jitter_ms = 6", "6 ms could make a delay of 5 ms negative", "at most"),
    ("links.burst", "to_bad = 0.01, ", "", '"to_bad" is missing', ""),
    ("links.burst", "burst = { to_bad = 0.01, to_good = 0.3, loss = 0.5 }", "burst = 1", "found 1", "[links.burst]"),
    ("duration_s", "duration_s = 20", "duration_s = 0", "expected a number of seconds above 0", ""),
    ("seed", "seed = 3", "seed = 3.5", "found 3.5, expected a whole number", ""),
    ("routing", '"destinations"', '"destination"', 'expected "subscriptions" or', 'did you mean "destinations"?'),
    ("routing", '"destinations"', '"subscriptions"', "needs a tree, and", 'write routing = "destinations"'),
    ("routing", '"destinations"', '"advertisements"', "b - a - c - b is a cycle", "take a link out"),
    ("topology.kind", 'kind = "listed"', 'kind = "mesh"', 'found "mesh", expected "listed" or "line"', ""),
    ("topology.links", 'kind = "listed"', 'kind = "line"', 'goes with kind = "listed", not with "line"', ""),
    ("topology.links.1.1", '["b", "c"]', '["b", "e"]', 'there is no broker "e"', "there are a, b, c, d"),
    ("topology.links.1", '["b", "c"]', '["b", "b"]', 'a link from "b" to itself', ""),
    ("topology.links.1", '["b", "c"]', '["b", "a"]', '"b" and "a" are linked twice', ""),
    ("topology.links.0", '[["a", "b"],', '[["a"],', "found a list of 1, expected a list of two brokers", ""),
    ("topology.brokers.2", '"b", "c", "d"]', '"b", "b", "c", "d"]', 'two brokers called "b"', ""),
    ("topology.brokers.1", '"b", "c", "d"]', '"b!", "b", "c", "d"]', 'found "b!", expected a name', "letters, digits"),
    ("broker.0.id", 'id = "d"', 'id = "e"', 'there is no broker "e"', ""),
    ("broker.0.mtbf_s", "mttr_s = 5\n", "", "found mtbf_s alone", "give mtbf_s and mttr_s, or availability"),
    ("link.0.mttr_s", "cycle_s = 1000", "mttr_s = 1000", "found mttr_s and availability", "give mtbf_s and mttr_s"),
    ("link.0.between.1", '["c", "d"]\navail', '["c", "dd"]\navail', 'there is no broker "dd"', 'did you mean "d"?'),
    ("clients.publishers", "publishers = 3", "publishers = 9", "9 of 8 clients cannot publish", ""),
    ("clients.publishers", "publishers = 3", 'publishers = "some"', 'found "some", expected "all"', ""),
    ("clients.count", "per_broker = 2", "per_broker = 2\ncount = 8", "both count and per_broker", "give one"),
    ("client.0.broker", 'broker = "a"', 'broker = "x"', 'there is no broker "x"', ""),
    ("client.0", 'broker = "a"\n', "", '"broker" is missing', ""),
    ("client.0.id", 'id = "desk"', 'id = "c1"', 'there are two clients called "c1"', ""),
    ("client.0.id", 'id = "desk"', 'id = "b"', 'there is a broker called "b" already', ""),
    ("client.0.subscriptions.0", '"p1 = TRUE"', '"p1 = = 2"', "line 1, column 6: expected a value", ""),
    ("client.0.subscriptions.1.condition", '"x > 3"', '"x > "', "the condition is not accepted", ""),
    ("client.0.subscriptions.1", 'id = "late"', 'id = "s1"', 'two subscriptions called "s1"', ""),
    ("client.0.subscriptions.1.until_s", "until_s = 9", "until_s = 5", "ends before it begins", ""),
    ("client.0.publish.0.attributes", "x = 5,", "x = [[5]],", "event attribute x[0]: a list holds scalars", ""),
    ("client.0.publish.1", ", attributes = { x = 1 }", "", '"attributes" is missing', ""),
    ("client.0.publish.1.every_s", "every_s = 4", "every_s = 0", "above 0", ""),
    ("client.0.publish.1.until_s", "until_s = 15", "until_s = 0", "end before they begin", ""),
    ("workload.kind", 'kind = "patterns"', 'kind = "pattern"', "expected", 'did you mean "patterns"?'),
    ("workload.skew", "payload_bytes = 100", "skew = 1", 'goes with kind = "zipf" or "stock", not with "patterns"', ""),
    ("workload.rate_per_s", "rate_per_s = 20", "rate_per_s = -20", "expected a number of publications above 0", ""),
    ("workload.per_event", "per_event = 2", "per_event = 11", "11 different ones of 10 patterns", "at most 10"),
    ("workload.start_s", "payload_bytes = 100", "start_s = 25", "it would end before it begins", "start_s < stop_s"),
    ("workload.stop_s", "payload_bytes = 100", "stop_s = 25", "after the end of the run, which lasts 20 s", ""),
    ("reliability.hops", 'hops = "basic"', 'hops = "basics"', 'found "basics"', 'did you mean "basic"?'),
    ("reliability.store", 'hops = "basic"', 'store = "kept"', 'with hops = "basic" brokers store nothing', "leave"),
    ("reliability.order", 'hops = "basic"', 'order = "fif"', 'found "fif"', 'did you mean "fifo"?'),
    ("protocol.lease_s", "heartbeat_s = 0.5", "heartbeat_s = 5", "forgotten between two heartbeats", "three times"),
    ("fault.0.broker", 'broker = "b"\nfor_s', 'broker = "bb"\nfor_s', 'there is no broker "bb"', 'did you mean "b"?'),
    ("fault.0.for_s", "for_s = 2", "for_s = -2", "found -2", ""),
    ("fault.0.link", "for_s = 2", 'link = ["a", "b"]', 'goes with kind = "link-down" or "link-up"', ""),
    ("fault.1.brokers", 'brokers = ["a", "b"]\nfor', 'brokers = ["a", "b", "c", "d"]\nfor', "cuts no link", "some"),
    ("fault.2.link", 'link = ["c", "d"]', 'link = ["a", "d"]', 'no link between "a" and "d"', 'has links with b, c'),
    ("fault.2.to", 'link = ["c", "d"]', 'link = ["c", "d"]\nto = ["a", "b"]', "linked already", ""),
    ("fault.2", 'link = ["c", "d"]', 'link = ["c", "d"]\n[reconfiguration]\nevery_s = 1', "[reconfiguration]", "one"),
    ("fault.3.client", 'client = "c1"\nbroker', 'client = "c9"\nbroker', 'there is no client "c9"', ""),
    ("fault.4.condition", '"p2 = TRUE"', '"p2 LIKE"', "the condition is not accepted", ""),
    ("fault.4", '\ncondition = "p2 = TRUE"', "", '"condition" is missing', ""),
    ("fault.4.kind", 'kind = "subscribe"', 'kind = "subscrib"', "expected", 'did you mean "subscribe"?'),
]  # fmt: skip


@pytest.mark.parametrize(("key", "line", "to", "message", "suggestion"), WRONG)
def test_a_mistake_is_named(key: str, line: str, to: str, message: str, suggestion: str) -> None:
    text = changed(line, to)
    found = problems_of(text)
    (problem,) = [each for each in found if each.key == key] or found
    assert (problem.key, message in problem.message, suggestion in problem.suggestion) == (key, True, True), problem
    assert problem.line is not None
    written = text.split("\n")[problem.line - 1]
    last = key.rpartition(".")[2]
    assert last in written or last.isdigit() or key.partition(".")[0] in written, (problem, written)


@pytest.mark.parametrize(("key", "line", "to", "message", "suggestion"), WRONG)
def test_one_mistake_is_one_problem(key: str, line: str, to: str, message: str, suggestion: str) -> None:
    assert [each.key for each in problems_of(changed(line, to))] == [key]


def test_all_problems_are_told_at_once() -> None:
    text, expected, touched = FULL, [], ""
    for key, line, to, _, _ in WRONG:
        table = key.partition(".")[0]
        # One of each table, and none that hides others: without brokers no name of a broker can be judged.
        if "." in key and table not in (touched, "topology") and line in text:
            text, touched = text.replace(line, to), table
            expected.append(key)
    assert len(expected) == 9
    assert set(expected) <= {each.key for each in problems_of(text)}


def test_problems_come_in_the_order_of_the_file() -> None:
    text = changed("loss = 0.02", "loss = 2").replace("duration_s = 20", "duration_s = -1").replace('"p1 = TRUE"', "7")
    lines = [each.line or 0 for each in problems_of(text)]
    assert lines == sorted(lines) and len(lines) == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"topology": {"kind": "tree"}}, '"brokers" is missing'),
        ({}, "there are no brokers"),
        ({"topology": {"kind": "ring", "brokers": 2}}, "a ring of 2, expected at least 3"),
        ({"topology": {"kind": "tree", "brokers": 20_000}}, "found 20000, expected a whole number from 1 to 10,000"),
        ({"topology": {"kind": "tree", "brokers": 0}}, "found 0"),
        ({"topology": {"brokers": 4, "links": [["b1", "b2"], ["b3", "b4"]]}}, "in 2 parts: b1 cannot reach b3, b4"),
        ({"topology": {"kind": "random", "brokers": 10, "mean_degree": 1.5}}, "all be connected"),
        ({"topology": {"kind": "random", "brokers": 10, "mean_degree": 9.5}}, "all be connected"),
        ({"topology": {"kind": "random", "brokers": 5_000, "mean_degree": 100}}, "250,000 links; the limit is 100,000"),
        (TREE | {"link": [{"between": ["b9", "b10"]}]}, '"b9" and "b10" have no link in this tree'),
        (TREE | {"clients": {"per_broker": 200_000}}, "2,000,000 clients; the limit is 1,000,000"),
        (TREE | {"workload": {"kind": "stock"}}, "no client publishes what the workload draws"),
        (TREE | {"client": [{"id": "x", "broker": "b1", "publishes": True}]}, "there is no workload to take part in"),
        (TREE | {"workload": {"kind": "files"}, "clients": {}}, "it names no file"),
        (TREE | {"transport": {"kind": "tls"}}, '"certificate" is missing'),
        (TREE | {"transport": {"port": 65_530}}, "65530 and the next 9, one a broker, go beyond 65535"),
        (TREE | {"transport": {"metrics_port": 65_530}}, "65530 and the next 9, one a broker, go beyond 65535"),
        (TREE | {"links": 3}, "found 3, expected a table"),
        (TREE | {"client": {"id": "x", "broker": "b1"}}, "found a table, expected tables [[client]]"),
        (
            TREE | {"workload": {"kind": "rates"}, "clients": {"count": 10_000, "publishers": 2_000}},
            "more than 10,000,000 pairs",
        ),
        (
            TREE | {"workload": {"kind": "patterns", "per_client": 70}, "clients": {"count": 50_000}},
            "3,500,000 subscriptions; the limit is 2,000,000",
        ),
        (
            TREE | {"workload": {"kind": "stock"}, "clients": {"count": 200_000, "publishers": "all"}},
            "200,000 publishers; the limit is 100,000",
        ),
        (
            TREE
            | {
                "routing": "advertisements",
                "client": [{"id": "x", "broker": "b1", "advertisements": [], "publish": [{"attributes": {"x": 1}}]}],
            },
            '"x" publishes and advertises nothing',
        ),
    ],
)  # fmt: skip
def test_an_impossible_network_is_refused(settings: dict[str, Any], message: str) -> None:
    assert any(message in str(each) for each in problems_of(settings)), problems_of(settings)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("seed = 1\nrouting = destinations\n", 2, "of: routing = destinations"),
        ("seed = 1\nseed = 2\n", 2, "Cannot overwrite a value"),
        ("[links\n", 1, "not TOML"),
        ("seed = " + "9" * 5_000, None, "not TOML"),
        ("seed = " + "[" * 5_000, None, ""),
        ("seed = " + "[" * 300 + "]" * 300, 1, "found a list of 1"),
    ],
)
def test_what_is_not_toml_is_told_with_its_line(text: str, line: int | None, message: str) -> None:
    (problem,) = [each for each in problems_of(text) if each.key != "topology"]
    assert problem.line == line
    assert message in str(problem)


def test_a_text_without_quotes_gets_a_hint() -> None:
    assert "quotes" in only_problem("routing = destinations").suggestion


def test_a_file_that_is_missing_or_not_text_is_told(tmp_path: Any) -> None:
    from holdfast.model.errors import InputError

    with pytest.raises(InputError, match="holdfast init writes one"):
        load(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"seed = \xff")
    with pytest.raises(InputError, match=r"not UTF-8 text \(byte 7\)"):
        load(tmp_path / "binary.toml")
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path)


def test_a_huge_file_is_refused() -> None:
    assert "the limit is 16,777,216" in only_problem("# " + "x" * 2**24).message


def test_many_problems_are_counted_and_not_all_shown() -> None:
    clients = [{"id": f"x{number}", "broker": "nowhere"} for number in range(3_000)]
    with pytest.raises(NetworkError) as caught:
        parse_text(TREE | {"client": clients})
    lines = str(caught.value).splitlines()
    assert lines[0] == "network: 3,000 problems"
    assert lines[-1] == f"  and {3_000 - PROBLEMS_SHOWN_MAX:,} more"
    assert len(lines) == PROBLEMS_SHOWN_MAX + 2
    assert len(caught.value.problems) == PROBLEMS_MAX


def test_an_error_survives_the_way_to_another_process() -> None:
    with pytest.raises(NetworkError) as caught:
        parse_text("seed = -1")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.problems) == (str(caught.value), caught.value.problems)


def test_what_is_probably_not_meant_is_a_warning() -> None:
    data = copy.deepcopy(tomllib.loads(FULL))
    data["client"][0]["subscriptions"] = ["x > 3 AND x < 2"]
    data["fault"].append({"at_s": 30, "kind": "crash", "broker": "a"})
    assert parse_text(data).warnings == (
        "client.0.subscriptions.0: never true: x > 3 AND x < 2",
        "client.0.subscriptions.0: this subscription can never match",
        "fault.5: at 30 s the run is over; left out",
    )


@pytest.mark.parametrize(
    ("written", "warning"),
    [
        ({"digest_s": 1}, 'digest_s: this has no effect without recovery = "end-to-end"'),
        ({"recovery": "end-to-end", "scheme": "srm", "told": 3}, 'told: this has no effect without scheme = "digest"'),
        ({"recovery": "end-to-end", "publisher_cache": True}, 'publisher_cache: ... without scheme = "srm"'),
        ({"order": "strict", "order_target": 0.1}, 'order_target: this has no effect without order = "fifo"'),
        ({"late": "drop"}, 'late: this has no effect without order = "fifo" or "strict"'),
        ({"gossip": "push", "gossip_source": 1}, 'gossip_source: ... without gossip = "combined-pull"'),
        ({"gossip_transfer": "direct", "gossip_transfer_ms": 3}, "gossip_transfer: ... without gossip = "),
        ({"link_ring": 9}, 'link_ring: this has no effect without hops = "nack"'),
        ({"hops": "nack", "beat_ms": 300}, 'beat_ms: this has no effect without hops = "multipath" or "hybrid"'),
    ],
)
def test_a_key_that_has_no_effect_is_a_warning(written: dict[str, Any], warning: str) -> None:
    first = parse_text(TREE | {"reliability": written}).warnings[0]
    assert re.match(re.escape(f"reliability.{warning}").replace(r"\.\.\.", ".*"), first), first


@pytest.mark.parametrize(
    "written",
    [
        {"recovery": "end-to-end", "digest_s": 1, "told": 3, "kept": 100},
        {"recovery": "end-to-end", "scheme": "srm", "publisher_cache": True, "filter_bits": 64},
        {"order": "fifo", "order_target": 0.1, "late": "drop", "record": 10},
        {"gossip": "combined-pull", "gossip_source": 1, "gossip_transfer": "direct", "gossip_transfer_ms": 3},
        {"hops": "nack", "link_ring": 9},
    ],
)
def test_a_key_that_has_its_effect_is_none(written: dict[str, Any]) -> None:
    assert parse_text(TREE | {"reliability": written}).warnings == ()


def test_a_workload_that_nobody_wants_is_a_warning() -> None:
    quiet = TREE | {"workload": {"kind": "stock"}, "clients": {"subscribers": "none"}}
    assert parse_text(quiet).warnings == ("workload: nobody subscribes",)
