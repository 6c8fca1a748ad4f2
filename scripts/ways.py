"""Prints in how many ways the server does what it should do in few: `way: file:function`, from its code."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Way:
    """What is done in several ways.

    functions: each way, by the name of a function, method, class or alias of types; a method's with that of its class.
    named, calling: what has such a name, or such a call in it, is a way: a test holds the list against that.
    """

    name: str
    functions: tuple[str, ...]
    named: str = ""
    calling: str = ""


WAYS = (
    Way(
        "decode a request",
        ("Decoder._multibulk", "Decoder._take_complete_words", "FastDecoder.receive", "Template.cut",
         "_decode_complete"),
        named=r"Decoder\.(_take_\w+|_multibulk)|FastDecoder\.receive|(Shape|Template)\.cut\w*|_decode_\w+",
    ),
    Way(
        "append an entry",
        ("_append_entries", "_append_rows", "apply_columns", "apply_entry", "read_node", "xadd"),
        calling=r"stream\.append(_columns)?\(",
    ),
    Way(
        "note a record",
        ("State.record", "_add_one", "_append_entries", "_append_rows", "_append_to_each", "_put", "del_",
         "record_owned", "record_removed", "record_seen", "set_run", "xadd", "zadd_run", "zrem"),
        calling=r"\brecords(\.append\((\(|ColumnsRecord)| \+= (\[|rows))",
    ),
    Way(
        "encode a record",
        ("encode_columns", "encode_command", "encode_note", "encode_together", "encode_unit", "encode_units",
         "encode_words"),
        named=r"encode_(command|columns|note|unit|words|units|together|entries)|(Log|Segment)\.encode_commands",
    ),
    Way(
        "read a range of the log",
        ("Log.count_range", "Log.encode_parts", "Log.ids_between", "Log.iterate", "Log.runs", "Log.split"),
        named=r"Log\.(get|iterate|ids_\w+|rank|runs|split|count_\w+|read_\w+|encode_\w+)",
    ),
    Way(
        "read a segment",
        ("Segment.encode", "Segment.entries", "Segment.ids", "Segment.read", "Segment.stored_texts",
         "Tail.encode", "Tail.entries", "Tail.ids", "Tail.read"),
        named=r"(Segment|Tail)\.(ids|entries|read|encode\w*|stored_texts)",
    ),
    Way(
        "turn RESP replies into values",
        ("_value",),
        named=r"_value|_parse_at",
    ),
    Way(
        "say rows or columns",
        ("Column", "ColumnsRecord", "ConsumerColumns", "EntryColumns", "PendingColumns",
         "RecordColumn", "RequestColumns", "RequestRows"),
        named=r"Alike|[A-Z]\w*Columns?|Column\w*|[A-Z]\w*Rows|EntryRun|Layout|Places|Run|RunFields|Texts|_Taken|_Reading",
    ),
    Way(
        "record an idempotent ID",
        ("IdmpTable._record_few", "IdmpTable._record_new", "IdmpTable.lookup_or_record",
         "IdmpTable.lookup_or_record_columns", "IdmpTable.record", "IdmpTable.record_run"),
        named=r"IdmpTable\._?(lookup_or_)?record\w*",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Definition:
    """Something that is defined in the server: its file, relative to the root, and its code."""

    file: str
    code: ast.AST

    def calls(self, pattern: str) -> bool:
        """Return whether a function's code has what matches a pattern."""
        return isinstance(self.code, ast.FunctionDef) and re.search(pattern, ast.unparse(self.code)) is not None


@cache
def definitions() -> dict[str, list[Definition]]:
    """Return all functions, methods, classes and aliases of types of the server, by name."""
    found: dict[str, list[Definition]] = defaultdict(list)
    for path in sorted((ROOT / "streamd").rglob("*.py")):
        file = path.relative_to(ROOT)
        if file.parts[1] != "clients":  # whose libraries and programs are no ways of the server
            for name, node in _defined(ast.parse(path.read_text(encoding="utf-8"))):
                found[name].append(Definition(str(file), node))
    return found


def _defined(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield node.name, node
            for one in node.body:
                if isinstance(one, ast.FunctionDef):
                    yield f"{node.name}.{one.name}", one
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node


def found_by_pattern(way: Way) -> set[str]:
    """Return the functions that are ways of this kind, going by their names and by what they call."""
    return {
        name
        for name, places in definitions().items()
        if (way.named and re.fullmatch(way.named, name))
        or (way.calling and any(place.calls(way.calling) for place in places))
    }


def main() -> None:
    """Print the ways of each kind, and how many there are: those of the list, and those that it lacks."""
    known = definitions()
    for way in WAYS:
        functions = sorted({*way.functions, *found_by_pattern(way)})
        print(f"{way.name}: {len(functions)}")
        for function in functions:
            for place in known[function]:
                if not way.calling or place.calls(way.calling):
                    print(f"{way.name}: {place.file}:{function}")


if __name__ == "__main__":
    main()
