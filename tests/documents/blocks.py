"""Finds the fenced blocks of the documents, and says which test runs each of them."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
DOCUMENTS: Final = ("README.md", "ARCHITECTURE.md", "SECURITY.md", "bench/NOTES.md", "docs/**/*.md")


class Block(NamedTuple):
    """A fenced block: the file it is in, the line it begins at, the word behind the fence, and its text."""

    document: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


@cache
def documents() -> tuple[str, ...]:
    """Return the documents, relative to the root of the repository."""
    files = sorted({file for pattern in DOCUMENTS for file in ROOT.glob(pattern)})
    return tuple(str(file.relative_to(ROOT)) for file in files)


@cache
def blocks() -> tuple[Block, ...]:
    """Return all blocks, in their order."""
    found = []
    for document in documents():
        text = (ROOT / document).read_text(encoding="utf-8")
        for match in re.finditer(r"^( *)(```+|~~~+)([^\n]*)\n(.*?)^\1\2 *$", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(document, line, match[3].strip(), match[4]))
    return tuple(found)


def is_spark(block: Block) -> bool:
    """Say whether a block needs a Spark session."""
    return "spark." in block.text


_WITH_SHELLS_OF_THEIR_OWN: Final = tuple(
    f"docs/{name}.md"
    for name in ("spark", "topics", "pipelines", "mqtt", "application", "two-machines", "large-streams")
)

# Who runs a block, by asking `blocks_for(__file__)` for those that are its own. Exactly one has to.
RUNNERS: Final[dict[str, Callable[[Block], bool]]] = {
    "tests/spark/test_pipelines.py": lambda one: one.document == "docs/pipelines.md",
    "tests/documents/test_redis_blocks.py": lambda one: (
        one.language == "redis" and one.document not in ("docs/new-command.md", "docs/two-machines.md")
    ),
    "tests/documents/test_shell_blocks.py": lambda one: (
        one.language in ("sh", "console")
        and one.document not in _WITH_SHELLS_OF_THEIR_OWN
        and not re.search(r"^(?:systemctl|docker|ssh) ", one.text, re.MULTILINE)
    ),
    "tests/documents/test_python_blocks.py": lambda one: (
        one.language == "python"
        and one.document in ("README.md", "docs/idempotence.md", "docs/start.md", "docs/testing.md")
        and not is_spark(one)
    ),
    "tests/documents/test_excerpts.py": lambda one: (
        (one.language == "python" and one.document == "ARCHITECTURE.md")
        or (one.language == "text" and one.document in ("docs/operations.md", "docs/xfilter.md"))
    ),
    "tests/documents/test_rules_of_users.py": lambda one: one.language == "text" and one.document == "docs/security.md",
    "tests/documents/test_service_of_systemd.py": lambda one: (
        one.language in ("conf", "ini") and one.document == "docs/security.md"
    ),
    "tests/integration/test_new_command.py": lambda one: (
        one.language in ("python", "redis") and one.document == "docs/new-command.md"
    ),
    "tests/replication/test_two_machines.py": lambda one: (
        one.document == "docs/two-machines.md" or (one.document == "docs/operations.md" and "ssh " in one.text)
    ),
    "tests/cold/test_large_streams_document.py": lambda one: (
        one.document == "docs/large-streams.md" and one.language == "sh"
    ),
    "tests/mqtt/test_application_document.py": lambda one: one.document == "docs/application.md",
    "tests/mqtt/test_mqtt_document.py": lambda one: one.document == "docs/mqtt.md" and not is_spark(one),
    "tests/spark/test_commands_example.py": lambda one: one.document == "docs/mqtt.md" and is_spark(one),
    "tests/sessions/test_sessions_document.py": lambda one: (
        one.language == "python" and one.document == "docs/sessions.md"
    ),
    "tests/topics/test_topics_document.py": lambda one: (
        one.language in ("python", "sh") and one.document == "docs/topics.md" and not is_spark(one)
    ),
    "tests/spark/test_topics_example.py": lambda one: (
        one.language == "python" and one.document == "docs/topics.md" and is_spark(one)
    ),
    "tests/spark/test_start_example.py": lambda one: (
        one.language == "python" and one.document == "docs/start.md" and is_spark(one)
    ),
    "tests/spark/test_spark_document.py": lambda one: (
        one.document in ("docs/spark.md", "docs/spark-reference.md")
        and (one.language in ("python", "sh") or one.text.startswith("~orders"))
    ),
}

# What no test can run, by how it begins, and why.
NOT_RUN: Final = {
    ("docs/large-streams.md", "   XADD"): "a drawing",
    ("ARCHITECTURE.md", "            bytes"): "a drawing",
    (
        "docs/guarantees.md",
        "#streamd journal 3",
    ): "a file to look at; test_records.py reads and writes such",
    ("docs/operations.md", "cp deploy/systemd"): "changes the machine; make check-deploy looks at the units",
    ("docs/operations.md", "make dist && docker build"): "builds an image; make check-deploy does, where buildah is",
    ("docs/spark.md", 'pip install ".[spark]"'): "installs what this test runs in",
    ("docs/terminal.md", "streamd 0.1.0 (Redis"): "a view of one moment; tests/terminal/test_top.py",
    ("docs/terminal.md", "$ streamd bench"): "figures of one machine; tests/terminal/test_bench.py",
}


def blocks_for(runner: str, document: str | None = None) -> list[Block]:
    """Return the blocks that a file of tests has to run, all of them or those of one document.

    runner: its `__file__`.
    """
    takes = RUNNERS[str(Path(runner).resolve().relative_to(ROOT))]
    return [one for one in blocks() if takes(one) and document in (None, one.document)]
