"""What docs/topics.md shows runs, and what it names exists."""

import re
from pathlib import Path

from streamd import cli

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "topics.md").read_text(encoding="utf-8")


def test_the_examples_of_the_document_run_one_after_the_other(client):
    port = str(client.connection_pool.connection_kwargs["port"])
    names: dict[str, object] = {}
    examples = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert len(examples) == 3
    for example in examples:
        exec(compile(example.replace("6379", port), "docs/topics.md", "exec"), names)


def test_the_commands_of_the_document_are_those_of_the_command_line(client, capsys):
    lines = re.findall(r"^streamd topics .*", TEXT, re.MULTILINE)
    assert len(lines) == 5
    for line in lines:
        words = [word.strip("'") for word in line.split()[1:]]
        words += ["--url", f"redis://127.0.0.1:{client.connection_pool.connection_kwargs['port']}"]
        words += ["--no-follow"] if words[1] == "tail" else []
        assert cli.main(words) == 0, capsys.readouterr().err


def test_the_example_of_the_readme_runs(client):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = [one for one in re.findall(r"^```python\n(.*?)^```", readme, re.M | re.S) if "TopicLog" in one]
    names: dict[str, list[object]] = {}
    exec(
        compile(example.replace("6379", str(client.connection_pool.connection_kwargs["port"])), "README.md", "exec"),
        names,
    )
    assert len(names["entries"]) == 1


def test_the_files_that_the_document_names_exist():
    named = re.findall(r"`(?:(test_\w+\.py)|((?:tests|examples)/[\w/]+\.py))`", TEXT)
    assert len(named) > 4
    for short, path in named:
        assert (ROOT / (path or f"tests/topics/{short}")).exists(), short or path


def test_the_requirements_that_the_document_names_are_tests():
    tests = (ROOT / "tests" / "topics" / "test_topic_requirements.py").read_text(encoding="utf-8")
    for number in range(1, 17):
        assert f"def test_e{number}_" in tests
