"""What docs/topics.md shows runs, and what it names exists."""

import re
from pathlib import Path

from streamd import cli
from tests.documents.blocks import blocks_for

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "topics.md").read_text(encoding="utf-8")


def test_the_examples_of_the_document_run_one_after_the_other(client):
    port = str(client.connection_pool.connection_kwargs["port"])
    names: dict[str, object] = {}
    examples = [one for one in blocks_for(__file__) if one.language == "python"]
    assert len(examples) == 4
    for example in examples:
        exec(compile(example.text.replace("6379", port), str(example), "exec"), names)


def test_the_commands_of_the_document_are_those_of_the_command_line(client, capsys):
    (block,) = [one for one in blocks_for(__file__) if one.language == "sh"]
    lines = block.text.splitlines()
    assert len(lines) == 5
    for line in lines:
        words = [word.strip("'") for word in line.split()[1:]]
        words += ["--url", f"redis://127.0.0.1:{client.connection_pool.connection_kwargs['port']}"]
        words += ["--no-follow"] if words[1] == "tail" else []
        assert cli.main(words) == 0, capsys.readouterr().err


def test_the_files_that_the_document_names_exist():
    named = re.findall(r"`(?:(test_\w+\.py)|((?:tests|examples)/[\w/]+\.py))`", TEXT)
    assert len(named) > 4
    for short, path in named:
        assert (ROOT / (path or f"tests/topics/{short}")).exists(), short or path


def test_the_requirements_that_the_document_names_are_tests():
    tests = (ROOT / "tests" / "topics" / "test_topic_requirements.py").read_text(encoding="utf-8")
    for number in range(1, 17):
        assert f"def test_e{number}_" in tests
