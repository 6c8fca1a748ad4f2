"""Figures in the documents that follow from files of this repository are what these say."""

from pathlib import Path

DOCUMENTS = Path(__file__).resolve().parents[2] / "docs"


def test_faults2_5_3_as_many_scripts_are_compared_as_the_document_says():
    from tests.differential.test_script_replies import SCRIPTS

    assert f" {len(SCRIPTS)} scripts on streamd and on redis-server" in (DOCUMENTS / "scripts.md").read_text()
