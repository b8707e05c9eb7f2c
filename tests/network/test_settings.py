"""Single values changed by their dotted keys, as `--set` and sweeps do."""

from datetime import date

import pytest

from holdfast.network.document import document_of, settings_from, with_settings
from holdfast.network.load import parse_text
from holdfast.network.problems import NetworkError
from tests.network.examples import FULL


def complaint(settings: dict[str, object]) -> str:
    with pytest.raises(NetworkError) as caught:
        parse_text(FULL, settings=settings)
    (problem,) = caught.value.problems
    return str(problem)


def test_a_value_is_changed_and_the_rest_stays() -> None:
    network = parse_text(FULL, settings={"links.loss": 0.5, "seed": 9})
    assert {link.loss_ratio for link in network.links} == {0.5}
    assert (network.seed, network.duration_us) == (9, 20_000_000)


def test_the_source_is_left_alone() -> None:
    document = document_of(FULL)
    with_settings(document, {"links.burst.loss": 0.9, "client.0.broker": "b"})
    assert document.data["links"]["burst"]["loss"] == 0.5
    assert document.data["client"][0]["broker"] == "a"


def test_a_position_in_a_list_is_counted_from_0() -> None:
    assert parse_text(FULL, settings={"fault.0.at_s": 5}).faults[0].at_us == 5_000_000


def test_a_table_that_was_not_there_is_made() -> None:
    tree = 'topology = { kind = "tree", brokers = 5 }'
    assert parse_text(tree, settings={"links.loss": 0.25}).links[0].loss_ratio == 0.25


def test_settings_can_be_put_on_settings() -> None:
    once = with_settings(FULL, {"links.loss": 0.25, "seed": 5})
    assert parse_text(with_settings(once, {"seed": 6})).seed == 6


def test_a_changed_network_can_be_written_down_and_read_again() -> None:
    network = parse_text(FULL, settings={"links.loss": 0.25, "client.0.subscriptions": ["x > 4"]})
    assert parse_text(network.text) == network
    assert parse_text(FULL).text == FULL


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("links.los", 0.1, '--set, links.los: unknown key "los"; did you mean "loss"?'),
        ("lnks.loss", 0.1, '--set, lnks.loss: unknown key "lnks"; did you mean "links"?'),
        ("links.loss", 7, "--set, links.loss: found 7, expected a number from 0 to 1; write 7 % as 0.07"),
        ("links.loss.x", 7, "--set, links.loss.x: links.loss is a single value; there is no x in it"),
        ("fault.7.at_s", 1, "--set, fault.7.at_s: fault is a list of 5, counted from 0; there is no 7 in it"),
        ("fault.one.at_s", 1, "--set, fault.one.at_s: expected a position in fault, counted from 0, such as fault.0"),
        ("workload.skew", 1, '--set, workload.skew: this key goes with kind = "zipf" or "stock", not with "patterns"'),
        ("client.0.broker", "z", '--set, client.0.broker: there is no broker "z"; there are a, b, c, d'),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_told_as_one(key: str, value: object, message: str) -> None:
    assert complaint({key: value}) == message


def test_all_wrong_settings_are_told_at_once() -> None:
    with pytest.raises(NetworkError) as caught:
        with_settings(FULL, {"links.los": 1, "seed": 5, "sed": 2})
    assert [each.key for each in caught.value.problems] == ["links.los", "sed"]


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("k=3", 3),
        ("k = 0.5", 0.5),
        ("k=1e-3", 0.001),
        ("k=true", True),
        ("k=[1, 2]", [1, 2]),
        ("k={a = 1}", {"a": 1}),
        ('k="two words"', "two words"),
        ("k='a=b'", "a=b"),
        ("k=destinations", "destinations"),
        ("k=link-down", "link-down"),
        ("k=nats+tls://user:word@127.0.0.1:4222/a?b=c", "nats+tls://user:word@127.0.0.1:4222/a?b=c"),
        ("k=2024-05-01", date(2024, 5, 1)),
        ("k=inf", float("inf")),
    ],
)
def test_a_setting_is_toml_and_a_bare_word_stands_for_itself(word: str, value: object) -> None:
    assert settings_from([word]) == {"k": value}


@pytest.mark.parametrize("word", ["k", "=3", "k=", "k=two words", "k=[1", "k=1\nseed = 2", "k=" + "[" * 5_000])
def test_what_is_no_setting_is_refused(word: str) -> None:
    with pytest.raises(NetworkError):
        settings_from([word])
