"""Names that version 0.1 documents lead to where things are now, and warn."""

import importlib

import pytest

from holdfast.books.runs import Run


def test_the_old_name_of_the_reader_of_traces_works_and_warns() -> None:
    with pytest.warns(DeprecationWarning, match=r"holdfast\.wire\.runs is now holdfast\.books\.runs"):
        old = importlib.import_module("holdfast.wire.runs")
    assert old.Run is Run
