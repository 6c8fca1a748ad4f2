"""What the documents quote of the code is the code."""

import ast
import re
from pathlib import Path

import pytest

import streamd.commands  # noqa: F401  (declares them)
from streamd.catalog import COMMANDS
from tests.documents.blocks import ROOT, Block, blocks_for

EXCERPTS = [one for one in blocks_for(__file__) if one.language == "python"]
SYNTAXES = blocks_for(__file__, "docs/xfilter.md")
LOGGED = blocks_for(__file__, "docs/operations.md")


def functions(source: str) -> dict[str, str]:
    """Return the functions of a source by name, as text without docstrings."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            if ast.get_docstring(node) is not None:
                del node.body[0]
            found[node.name] = ast.unparse(node) if node.body else ""
    return found


def all_functions() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "streamd" / "commands").rglob("*.py")):
        for name, text in functions(Path(path).read_text(encoding="utf-8")).items():
            found.setdefault(name, set()).add(text)
    return found


@pytest.mark.parametrize("block", EXCERPTS, ids=str)
def test_a_function_that_is_shown_is_that_of_the_code_or_a_test_that_passes(block: Block, engine):
    shown = functions(block.text)
    assert len(shown) == 1
    for name, text in shown.items():
        if name.startswith("test_"):
            names: dict = {}
            exec(compile(block.text, str(block), "exec"), names)
            names[name](engine)
        else:
            assert text in all_functions()[name]


@pytest.mark.parametrize("block", SYNTAXES, ids=str)
def test_a_syntax_that_is_shown_is_what_command_docs_says(block: Block):
    shown = block.text.split()
    name = next(name for name in COMMANDS.leaves() if name.name.upper().split("|") == shown[: name.name.count("|") + 1])
    declared = [word.partition(":")[0] if ":" in word else word for word in name.syntax.split()]
    assert " ".join(shown[name.name.count("|") + 1 :]) == " ".join(declared)


@pytest.mark.parametrize("block", LOGGED, ids=str)
def test_a_line_of_the_log_that_is_shown_is_one_that_the_server_writes(block: Block):
    shown = re.fullmatch(r"\S+ \S+ (INFO|WARNING) ([a-z-]+): .*\n", block.text)
    assert shown is not None
    call = rf'log\.{shown[1].lower()}\(\s*"{shown[2]}"'
    assert [path for path in (ROOT / "streamd").rglob("*.py") if re.search(call, path.read_text(encoding="utf-8"))]
