"""No function calls itself over input, in one step or by way of others, but those named here with their bound."""

import ast
from pathlib import Path

import pytest

from tests.self_calls import CallGraph, read

ROOT = Path(__file__).resolve().parents[1]
SOURCES = read(ROOT, ("streamd", "spark_source", "pyspark_streamd"))

_TYPES = "the levels of a type: `schema.LEVELS_MAX`, which `unusable` checks, and which Arrow hands over at most"
_REPLIES = "the levels of a reply: a few of commands, and DEPTH_MAX of lua/prelude/redis.lua, 128, of scripts"
_DECLARED = "what the source declares of its commands: no input"
BOUNDS = {
    "spark_source.values.json_read._Reading._lists": _TYPES,
    "spark_source.values.json_read._Reading._maps": _TYPES,
    "spark_source.values.json_read._Reading._structs": _TYPES,
    "spark_source.values.json_read._Reading.build": _TYPES,
    "spark_source.values.json_read._is_plain": _TYPES,
    "spark_source.values.json_write._keys": _TYPES,
    "spark_source.values.json_write._maps": _TYPES,
    "spark_source.values.json_write._pieces": _TYPES,
    "spark_source.values.json_write._structs": _TYPES,
    "spark_source.values.json_write.json_texts": _TYPES,
    "spark_source.values.plain._plain_field": _TYPES,
    "spark_source.values.plain.plain": _TYPES,
    "spark_source.values.plain.plain_type": _TYPES,
    "spark_source.values.row_values._nested": _TYPES,
    "spark_source.values.schema._doubt": _TYPES,
    "streamd.base.form._stale_file": "the directories of the package itself",
    "streamd.catalog.context.Command.copy_for_server": _DECLARED,
    "streamd.catalog.describe._documented_arguments": _DECLARED,
    "streamd.catalog.describe.describe": _DECLARED,
    "streamd.catalog.describe.document": _DECLARED,
    "streamd.catalog.syntax._Parser._group": _DECLARED,
    "streamd.catalog.syntax._Parser._optional": _DECLARED,
    "streamd.catalog.syntax._Parser._sequence": _DECLARED,
    "streamd.catalog.syntax._Parser._token": _DECLARED,
    "streamd.catalog.syntax._Parser.alternatives": _DECLARED,
    "streamd.clients.mqtt.gateway.connection.Connection.answer": "close sends a DISCONNECT, which never closes",
    "streamd.clients.mqtt.gateway.connection.Connection.close": "close sends a DISCONNECT, which never closes",
    "streamd.clients.mqtt.store.records.taking_over": "halves of at most `taking_up._AT_ONCE` sessions",
    "streamd.clients.terminal.completing.as_group": _DECLARED,
    "streamd.configuration.setting_lines._included": "`_DEPTH_MAX` of that file, 16",
    "streamd.configuration.setting_lines.read_settings": "`_DEPTH_MAX` of that file, 16",
    "streamd.data.trash._elements": "the groups of a stream: one step",
    "streamd.engine.admission._may_write": "the commands of a transaction, among which is no EXEC: one step",
    "streamd.idmp.digest.idmpauto_iids": "parts that are short enough: one step",
    "streamd.journal.rewrite.Rewrite._observe": "the records of columns, which are plain ones: one step",
    "streamd.lua.bytecode._read_function": "functions within each other: 200, which Lua's parser checks",
    "streamd.lua.tokens._build_nested": _REPLIES,
    "streamd.lua.tokens._hashable": _REPLIES,
    "streamd.lua.tokens._put_map": _REPLIES,
    "streamd.lua.tokens._put_rare": _REPLIES,
    "streamd.lua.tokens.build_reply": _REPLIES,
    "streamd.lua.tokens.put_tokens": _REPLIES,
    "streamd.resp.encoder.encode_pieces": _REPLIES,
    "streamd.resp.plain._value": _REPLIES,
    "streamd.resp.plain.plain": _REPLIES,
    "streamd.stream.groups.chunk_ids._grown": "the widths of a number: two steps",
    "streamd.stream.log.entry_log.Log._reopen": "a segment that has room as the tail: one step",
    "streamd.stream.log.entry_log.Log._roll": "a segment that has room as the tail: one step",
    "streamd.stream.log.entry_log.Log.append": "a segment that has room as the tail: one step",
}

# JSON that streamd has written itself, at places where nobody else writes: a RecursionError is a fault like any other.
OWN_JSON = {
    "streamd/base/form.py": 1,
    "streamd/clients/mqtt/asking.py": 1,
    "streamd/clients/mqtt/store/records.py": 5,
    "streamd/clients/topics/administration.py": 2,
    "streamd/clients/topics/layout.py": 1,
    "streamd/clients/topics/shares.py": 1,
    "spark_source/connecting/topic_log.py": 1,
}


def test_every_function_that_may_call_itself_has_a_bound() -> None:
    circles = CallGraph(SOURCES).circles()

    assert sorted({one for circle in circles for one in circle}) == sorted(BOUNDS)


@pytest.mark.parametrize(
    "body",
    [
        "def f(a):\n    f(a.b)",
        "def f(a):\n    yield from f(a.b)",
        "def f(a):\n    return [f(one) for one in a]",
        "def f(a):\n    return list(map(f, a))",
        "def f(a):\n    return sorted(a, key=lambda one: g(one))\ndef g(a):\n    return f(a)",
        "from other import g\ndef f(a):\n    g(a)",
        "class C:\n    def f(self, a):\n        self.g(a)\n    def g(self, a):\n        self.f(a)",
        "class B:\n    def g(self, a):\n        self.f(a)\nclass C(B):\n    def f(self, a):\n        self.g(a)",
        "class B:\n    def f(self, a):\n        pass\nclass C(B):\n    below: 'list[B]'\n    def f(self, a):\n"
        "        for one in self.below:\n            one.f(a)",
        "class C:\n    def __init__(self):\n        self.below: dict[str, C] | None = None\n    def f(self, a):\n"
        "        for one in self.below.values():\n            one.f(a)",
        "def f(a):\n    def inside(b):\n        f(b)\n    inside(a)",
    ],
)
def test_the_check_finds_functions_that_call_themselves(body: str) -> None:
    assert CallGraph([("here", body), ("other", "from here import f\ndef g(a):\n    f(a)")]).circles()


@pytest.mark.parametrize(
    "body",
    [
        "def f(a):\n    a.loop.call_soon(f, a)",
        "class C:\n    async def f(self):\n        self.spawn(self.f())",
        "class C:\n    def f(self):\n        self.link.send(1, lambda replies: self.f())",
        "class C:\n    def f(self):\n        self.file.f()",
        "def f(a):\n    def f(b):\n        pass\n    f(a)",
    ],
)
def test_the_check_passes_over_what_runs_later_and_what_only_has_the_same_name(body: str) -> None:
    assert CallGraph([("here", body)]).circles() == []


def _is_guarded(node: ast.Call, within: dict[ast.AST, ast.AST]) -> bool:
    one: ast.AST | None = node
    while one is not None:
        above = within.get(one)
        if isinstance(above, ast.Try) and one in above.body:
            caught = [handler.type for handler in above.handlers if handler.type is not None]
            if any("RecursionError" in ast.unparse(kind) for kind in caught):
                return True
        one = above
    return False


def test_json_that_others_write_may_be_nested_without_an_end() -> None:
    found: dict[str, int] = {}
    for name, text in SOURCES:
        tree = ast.parse(text)
        within = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        reads = [one for one in ast.walk(tree) if isinstance(one, ast.Call) and ast.unparse(one.func) == "json.loads"]
        number = sum(not _is_guarded(one, within) for one in reads)
        if number:
            found[name.replace(".", "/") + ".py"] = number

    assert found == OWN_JSON
