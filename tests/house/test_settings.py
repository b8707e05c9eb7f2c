"""Settings are declared once, and every way to set one enforces the same bounds."""

import dataclasses
import warnings
from collections.abc import Iterator
from importlib import import_module
from math import inf
from typing import Any

import pytest

from holdfast.carriers.connecting import connect
from holdfast.cli import main
from holdfast.gateway.client import connect_gateway
from holdfast.model.errors import InputError
from holdfast.model.settings import MICROSECONDS, Declared, Settings, SettingsError, declared, suffix
from holdfast.model.validation import ChoiceRule, FlagRule, NumberRule, ValueRule
from holdfast.net.settings import ClientSettings, NodeSettings
from holdfast.network.keys.protocol import PLAN, PROTOCOL, RELIABILITY, REPLICATION, TRANSPORT
from holdfast.network.load import parse_text
from holdfast.network.problems import NetworkError
from holdfast.network.tables import Table
from holdfast.pipeline.live.options import stream_options
from holdfast.protocol.order.settings import LatchSettings
from holdfast.protocol.recovery.settings import RecoverySettings
from holdfast.protocol.settings import ProtocolSettings
from tests.house.tree import ROOT, python_files
from tests.network.examples import TREE

HERE = "tcp://127.0.0.1:7001"
TABLES = (RELIABILITY, REPLICATION, PROTOCOL, TRANSPORT, PLAN)


def settings_classes() -> list[type[Settings]]:
    """All that the product has, wherever they are declared."""
    for path in python_files("src/holdfast/"):
        if "(Settings)" in path.read_text() or path.stem == "settings":
            import_module(".".join(path.relative_to(ROOT / "src").with_suffix("").parts))
    found = [Settings]
    for each in found:
        found += each.__subclasses__()
    return sorted({each for each in found if dataclasses.is_dataclass(each)}, key=lambda each: each.__name__)


CLASSES = settings_classes()
EVERY = [(kind, each) for kind in CLASSES for each in declared(kind).values()]


def named(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else value.name if isinstance(value, Declared) else str(value)


def test_every_settings_class_is_found_and_has_all_its_fields_declared() -> None:
    names = {each.__name__ for each in CLASSES}
    assert {"ProtocolSettings", "SrmSettings", "NodeSettings", "ClientSettings", "GatewaySettings"} <= names
    for kind in CLASSES:
        assert [each.name for each in dataclasses.fields(kind)] == list(declared(kind)), kind  # type: ignore[arg-type]


def test_every_class_called_settings_is_declared_and_so_validated() -> None:
    for path in python_files("src/holdfast/"):
        for line in path.read_text().splitlines():
            if line.startswith("class ") and "Settings" in line.partition("(")[0]:
                name = line.split()[1].partition("(")[0].rstrip(":")
                assert name in {*(each.__name__ for each in CLASSES), "Settings", "SettingsError"}, f"{path}: {name}"


@pytest.mark.parametrize(("kind", "each"), EVERY, ids=named)
def test_every_setting_has_a_meaning_and_its_default_a_reason(kind: type, each: Declared) -> None:
    of = each.setting
    assert of.meaning and (of.reason or each.default is dataclasses.MISSING)
    assert each.default is dataclasses.MISSING or each.problem(each.default) == ""
    number = each.kind
    if isinstance(number, NumberRule) and of.key is not None:
        assert number.high < inf, "a number that a file can set has an upper bound"
        assert bool(suffix(each.name, {"_us": 1})) == bool(suffix(of.key, MICROSECONDS)), "names say their unit"


def outside(kind: ValueRule) -> Iterator[object]:
    """Values just beyond what a kind accepts."""
    match kind:
        case NumberRule(low, high, _, integer, above, below):
            step = 1 if integer else 0.001
            yield low if above else low - step
            if high < inf:
                yield high if below else high * 2
            yield "many"
        case ChoiceRule():
            yield "no such word"
        case FlagRule():
            yield "maybe"


KEYS = [
    (table, kind, each)
    for kind in CLASSES
    for each in declared(kind).values()
    for table in TABLES
    if each.setting.key in table.all_keys and kind is not ClientSettings
]


@pytest.mark.parametrize(("table", "kind", "each"), KEYS, ids=named)
def test_a_bound_holds_in_python_and_in_the_file_alike(table: Table, kind: Any, each: Declared) -> None:
    key = table.all_keys[each.setting.key or ""]
    micro = MICROSECONDS[suffix(key.name, MICROSECONDS)] if key.field != key.name else 1
    for value in outside(each.kind):
        with pytest.raises(SettingsError, match=f"^{each.name} "):
            kind(**{each.name: value})
        written = value / micro if micro > 1 and isinstance(value, int | float) else value
        with pytest.raises(NetworkError) as problem:
            parse_text(TREE | {table.name: {key.name: written}})
        assert problem.value.problems[0].key == f"{table.name}.{key.name}"
        assert key.shape.words() in problem.value.problems[0].message


@pytest.mark.parametrize(
    ("verb", "flag", "kind", "field"),
    [
        (["broker", "--id", "b1"], "--routing", NodeSettings, "routing"),
        (["broker", "--id", "b1"], "--hops", ClientSettings, "hops"),
        (["pub"], "--hops", ClientSettings, "hops"),
        (["sub", "n > 0"], "--order", ClientSettings, "order"),
    ],
)
def test_a_word_that_python_refuses_is_refused_by_the_flag(
    verb: list[str], flag: str, kind: type, field: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert declared(kind)[field].problem("no such word")
    with pytest.raises(SystemExit) as end:
        main([*verb, flag, "no such word"])
    assert end.value.code == 2
    told = capfd.readouterr().err
    assert all(word in told for word in ("no such word", *(str(each) for each in words_of(declared(kind)[field].kind))))


def words_of(kind: ValueRule) -> tuple[str | int, ...]:
    kinds = getattr(kind, "kinds", (kind,))
    return next(each.choices for each in kinds if isinstance(each, ChoiceRule))


def test_the_same_words_work_in_python_as_in_the_file() -> None:
    def of(**given: Any) -> ClientSettings:
        connect(HERE, **given)
        return ClientSettings(**given)

    assert of(recovery="end-to-end").guarantees == of(recovery=True).guarantees
    assert of(recovery="end-to-end").guarantees.recovery == RecoverySettings()
    assert of(recovery="none").guarantees == of(recovery=False).guarantees == of().guarantees
    assert of(hops="retransmission").hop_settings == of(durable=True).hop_settings
    assert of(order="strict").guarantees.order == LatchSettings("strict")


def test_contradictions_are_told_in_the_file_at_their_key() -> None:
    with pytest.raises(SettingsError, match="lease_us must exceed the heartbeat"):
        ProtocolSettings(heartbeat_us=5, lease_us=5)
    with pytest.raises(NetworkError, match=r"protocol\.lease_s: must exceed the heartbeat"):
        parse_text(TREE | {"protocol": {"heartbeat_s": 5, "lease_s": 5}})


@pytest.mark.parametrize(("former", "now"), [("private_key", "key"), ("authority", "ca")])
def test_former_names_of_tls_files_work_and_warn(former: str, now: str) -> None:
    for function in (connect, connect_gateway):
        with pytest.warns(DeprecationWarning, match=f"{former}= is called {now}= now"):
            function("tls://127.0.0.1:7001", **{former: "file.pem"})  # type: ignore[operator]
        with pytest.raises(TypeError, match="unexpected keyword argument 'privat_key'"):
            function(HERE, privat_key="file.pem")  # type: ignore[operator]
    option = "privateKey" if former == "private_key" else former
    with pytest.warns(DeprecationWarning, match=f"option {option} is called {now} now"):
        assert getattr(stream_options({"gateway": HERE, option: "file.pem"}), now) == "file.pem"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert getattr(stream_options({"gateway": HERE, now: "file.pem"}), now) == "file.pem"
    network = parse_text(TREE, settings={f"transport.{former}": str(ROOT / "README.md")})
    assert network.warnings == (f"transport.{former}: this key is called {now} now",)
    assert getattr(network.transport, now) == str(ROOT / "README.md")


def test_the_former_flag_works_and_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["broker", "--id", "b1", "--listen", "tls://127.0.0.1:0", "--cert=/nowhere.pem"])
    told = capfd.readouterr().err
    assert "--cert is called --certificate now" in told and "bad certificate: /nowhere.pem" in told


def test_settings_errors_survive_the_way_to_another_process() -> None:
    import pickle

    with pytest.raises(InputError) as caught:
        ProtocolSettings(heartbeat_us=0, hops_max=0)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and again.wrong == caught.value.wrong
