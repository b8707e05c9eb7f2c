"""Read a network file. Whatever is wrong with it is told at once, before anything starts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.network.building.network import build
from holdfast.network.document import Document, document_of, read, with_settings
from holdfast.network.schema import Network


def load(path: str | Path, settings: Mapping[str, object] | None = None) -> Network:
    """The network that a file describes, with single values changed: `{"links.loss": 0.1}`."""
    return build(with_settings(read(path), settings or {}))


def parse_text(
    source: str | Mapping[str, Any] | Document, name: str = "network", settings: Mapping[str, object] | None = None
) -> Network:
    """The same for a text, for a file's data as plain maps and lists, or for a document."""
    return build(with_settings(document_of(source, name), settings or {}))
