"""The drawings of docs/idempotence.md are those that `make pictures` makes."""

from scripts import pictures_idempotence
from tests.documents.blocks import ROOT


def test_the_drawings_are_what_the_code_draws(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pictures_idempotence, "PICTURES", tmp_path)
    assert pictures_idempotence.main() == 0
    drawn = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert len(drawn) == 4
    assert {name: (ROOT / "docs" / "pictures" / name).read_text() for name in drawn} == drawn
    assert all(f"pictures/{name})" in (ROOT / "docs" / "idempotence.md").read_text() for name in drawn)
