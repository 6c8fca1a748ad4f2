"""Each fenced block of the documents is run by a test, or stands in the table of those that cannot be."""

import re

import pytest

from tests.documents.blocks import NOT_RUN, ROOT, RUNNERS, Block, blocks


def reasons(block: Block) -> list[str]:
    return [
        why for (document, begin), why in NOT_RUN.items() if block.document == document and block.text.startswith(begin)
    ]


@pytest.mark.parametrize("block", blocks(), ids=str)
def test_a_block_has_one_runner_or_one_reason(block):
    runners = [runner for runner, takes in RUNNERS.items() if takes(block)]
    assert len(runners) + len(reasons(block)) == 1, f"run by {runners}, not run because {reasons(block)}"


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_runner_asks_for_its_blocks(runner):
    assert (ROOT / runner).exists()
    assert "blocks_for(__file__" in (ROOT / runner).read_text(encoding="utf-8")
    assert [one for one in blocks() if RUNNERS[runner](one)] != []


def test_a_reason_is_for_a_block_that_is_there():
    for document, begin in NOT_RUN:
        assert [one for one in blocks() if one.document == document and one.text.startswith(begin)]


def test_the_tests_that_reasons_name_are_there():
    named = [name for why in NOT_RUN.values() for name in re.findall(r"\w+\.py", why)]
    assert [name for name in named if not list((ROOT / "tests").rglob(name))] == []
