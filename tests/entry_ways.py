"""A fixture that has entries encoded in both ways."""

import importlib

import pytest

from streamd.stream.log import segment
from streamd.stream.wire import entry_writer, packed_numbers


@pytest.fixture(params=["by columns", "byte by byte"])
def way(request, monkeypatch):
    """How entries are encoded and IDs are found: as the pure form does it, or the compiled one (here interpreted)."""
    if request.param == "byte by byte":
        pytest.importorskip("librt")
        native_columns = importlib.import_module("streamd.stream.wire.native_columns")
        native_entries = importlib.import_module("streamd.stream.wire.native_entries")
        monkeypatch.setattr(packed_numbers, "IS_NATIVE", True)
        monkeypatch.setattr(packed_numbers, "first_from", native_columns.first_from, raising=False)
        monkeypatch.setattr(entry_writer, "write_entries", native_entries.write_entries, raising=False)
        monkeypatch.setattr(segment, "WRITES", True)
    return request.param
