"""Rooms import each other only along the arrows of the design."""

import pytest

from tests.house.arrows import wrong_arrows
from tests.house.tree import complaints


def test_rooms_import_along_the_arrows() -> None:
    wrong = complaints(wrong_arrows, "src/holdfast/")
    assert not wrong, f"imports against the arrows:\n{wrong}"


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("holdfast.language.parser", "from holdfast.model.values import Kind"),
        ("holdfast.language.parser", "from holdfast.language import tokens"),
        ("holdfast.language.parser", "from .tokens import scan"),
        ("holdfast.language.__init__", "from ..model import values"),
        ("holdfast.sim.run", "from holdfast import __version__\nimport holdfast.protocol.node"),
        ("holdfast.net.node", "from holdfast.protocol.hops.settings import HopSettings"),
        ("holdfast.network.load", "from holdfast.protocol.hops.durable import DurableLayer"),
        ("holdfast.pipeline.live.source", "from holdfast.net.client import Client"),
        ("holdfast.protocol.gossip", "import math"),
        ("holdfast.nemesis.judge.verdict", "from holdfast.nemesis.journal import lines_of"),
    ],
)
def test_allowed_imports_pass(module: str, source: str) -> None:
    assert list(wrong_arrows(source, module)) == []


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("holdfast.model.event", "from holdfast.language import parser", "model may not import language"),
        ("holdfast.model.event", "from ..language import parser", "model may not import language"),
        ("holdfast.language.parser", "def f():\n    import holdfast.matching.scan", ":2: language may not"),
        ("holdfast.protocol.broker", "from holdfast.sim import queue", "protocol may not import sim"),
        ("holdfast.nemesis.judge.verdict", "from holdfast.model import event", "the judge may not import"),
        ("holdfast.nemesis.judge.verdict", "from holdfast.nemesis import modes", "the judge may not import"),
        ("holdfast.planner.delay", "from holdfast.protocol import hops", "it sees language, matching, model, network"),
        ("holdfast.pipeline.audit.job", "from holdfast.net import client", "pipeline may not import net"),
        ("holdfast.net.broker", "from holdfast.cli import main", "net may not import cli"),
        ("holdfast.books.live", "from holdfast.net import member", "books may not import net"),
        ("holdfast.pipeline.audit.folder", "from holdfast.pipeline.report import page", "may not import holdfast.pip"),
        ("holdfast.model.event", "import_module('holdfast.cli')", "model may not import cli"),
        ("holdfast.sim.run", "from holdfast import Matcher", "from the room it lives in"),
        ("holdfast.cli.verbs", "from holdfast_papers import verb", "the product may not import holdfast_papers"),
        ("holdfast.cli.verbs", "import_module('holdfast_papers.verb')", "the product may not import holdfast_papers"),
        ("holdfast.sim.run", "from holdfast.protocol.broker import Broker", "know no mechanism, but broker.Broker"),
        ("holdfast.net.node", "import holdfast.protocol.hops.durable", "know no mechanism, but hops.durable"),
        ("holdfast.net.node", "from holdfast.protocol import hops", "know no mechanism, but hops"),
        ("holdfast.attic.old", "", "has no row"),
    ],
)
def test_imports_against_the_arrows_are_named(module: str, source: str, complaint: str) -> None:
    (message,) = wrong_arrows(source, module)
    assert complaint in message
