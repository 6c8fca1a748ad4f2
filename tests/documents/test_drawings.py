"""The drawings of documents are those that `make pictures` makes."""

import pytest

from scripts import pictures_idempotence, pictures_mqtt
from tests.documents.blocks import ROOT


@pytest.mark.parametrize(
    ("drawer", "document", "number"),
    [(pictures_idempotence, "docs/idempotence.md", 4), (pictures_mqtt, "docs/mqtt.md", 1)],
)
def test_the_drawings_are_what_the_code_draws(drawer, document, number, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pictures_idempotence, "PICTURES", tmp_path)
    assert drawer.main() == 0
    drawn = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert len(drawn) == number
    assert {name: (ROOT / "docs" / "pictures" / name).read_text() for name in drawn} == drawn
    assert all(f"pictures/{name})" in (ROOT / document).read_text() for name in drawn)
