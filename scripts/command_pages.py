"""Writes the pages of commands for the site of documents, one for each group, from the table of commands.

A page shows the declaration beside each handler, as COMMAND INFO and DOCS do, and the rows of docs/differences.md that
name the command.
"""

import inspect
import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import streamd.commands  # noqa: F401  (declares them)
from streamd.catalog import COMMANDS, Command
from streamd.catalog.counted_keys import CountedKeys
from streamd.catalog.describe import access_of_keys, categories

DIFFERENCES = Path(__file__).resolve().parent.parent / "docs" / "differences.md"
GROUPS = {
    "stream": "Streams",
    "string": "Strings",
    "bitmap": "Bits",
    "hash": "Hashes",
    "list": "Lists",
    "set": "Sets",
    "sorted-set": "Sorted sets",
    "generic": "Keys",
    "transactions": "Transactions",
    "scripting": "Scripts",
    "pubsub": "Publish and subscribe",
    "connection": "Connections",
    "cluster": "Cluster",
    "server": "The server",
}
# Redis has no page of these, or (BACKUP) one of other subcommands; docs/differences.md says of each what it is.
OWN = {"backup", "journal", "xfilter", "xidmp", "xsplit"}
LINE = 88  # characters of a syntax before it goes on in a new line
ACCESSES = {"RO": "read", "RW": "read and written", "OW": "written", "RM": "removed"}


class Difference(NamedTuple):
    """A row of docs/differences.md: what it is about, and the titles and texts of its other columns."""

    what: str
    cells: list[tuple[str, str]]


def pages() -> dict[str, str]:
    """Return the pages: path on the site -> Markdown."""
    differences = differences_by_command(DIFFERENCES.read_text(encoding="utf-8"))
    groups: dict[str, list[Command]] = defaultdict(list)
    for one in sorted(COMMANDS.values(), key=lambda command: command.name):
        groups[one.group].append(one)
    return {path_of(group): page(title, groups[group], differences) for group, title in GROUPS.items()}


def path_of(group: str) -> str:
    """Return the path of a group's page."""
    return f"commands/{group}.md"


def anchor_of(command: Command) -> str:
    """Return the anchor of a command on its page: that of its heading."""
    return command.name.replace("|", "-").lower()


def page(title: str, commands: list[Command], differences: dict[str, list[Difference]]) -> str:
    """Return the page of one group."""
    names = " · ".join(f"[{one.name.upper()}](#{anchor_of(one)})" for one in commands)
    parts = [
        f"# {title}",
        "Made from the table of commands that the server itself uses: `COMMAND DOCS` and `COMMAND INFO` say the same "
        "over the wire. What holds for all commands, and why something differs, is in "
        "[Where streamd differs from Redis](../differences.md).",
        names,
    ]
    for one in commands:
        parts += section(one, differences, "##")
        leaves = (leaf for leaf in one.subcommands.values() if not leaf.name.endswith("|help"))
        for leaf in sorted(leaves, key=lambda leaf: leaf.name):
            parts += section(leaf, differences, "###")
    return "\n\n".join(parts) + "\n"


def section(command: Command, differences: dict[str, list[Difference]], mark: str) -> list[str]:
    """Return the blocks of Markdown about one command."""
    shown = command.name.upper().replace("|", " ")
    facts = [
        ("since", f"streamd {command.since}" if is_own(command) else f"Redis {command.since}"),
        ("time", command.complexity),
        ("flags", " ".join(sorted(command.flags)) or "none"),
        ("ACL", " ".join(f"@{name}" for name in categories(command))),
        ("keys", keys_of(command)),
    ]
    parts = [f"{mark} {shown}", escaped(command.summary)]
    if not command.subcommands:
        parts.append(f"```text\n{wrapped(f'{shown} {syntax_of(command)}'.strip())}\n```")
        parts += [escaped(paragraph) for paragraph in details(command)]
        parts.append("| | |\n|---|---|\n" + "\n".join(f"| {name} | {cell(text)} |" for name, text in facts))
    found = differences.get(command.name, [])
    if found:
        parts.append('!!! note "Beside Redis"\n\n' + "\n".join(map(difference_line, found)))
    elif is_own(command) and not command.subcommands:
        parts.append('!!! note "streamd\'s own"\n\n    Redis does not have it.')
    if not is_own(command):
        parts.append(f"[{shown} in Redis's documentation]({command.source})")
    return parts


def difference_line(one: Difference) -> str:
    """Return one row as a point of a list."""
    cells = "; ".join(f"*{title}*: {escaped(text)}" for title, text in one.cells if text)
    line = f"    * **{escaped(one.what)}**: {cells}"
    return re.sub(r"\]\((?!\w+:|#)", "](../", line)


def is_own(command: Command) -> bool:
    """Say whether Redis lacks a command."""
    return command.name.partition("|")[0] in OWN


def syntax_of(command: Command) -> str:
    """Return the arguments, without the types that COMMAND DOCS has."""
    return re.sub(r"(?<=[\w-]):(?:integer|double|string|key|pattern|unix-time)\b", "", command.syntax)


def wrapped(syntax: str) -> str:
    """Return a syntax in lines of readable length, broken between its parts."""
    parts, depth = [""], 0
    for character in syntax:
        depth += (character in "[<") - (character in "]>")
        if character == " " and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    lines = [parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + 1 + len(part) > LINE and part[0] in "[<":
            lines.append(f"    {part}")
        else:
            lines[-1] += f" {part}"
    return "\n".join(lines)


def details(command: Command) -> list[str]:
    """Return the handler's docstring after its first line, without the exceptions."""
    paragraphs = (inspect.getdoc(command.handler) or "").split("\n\n")[1:]
    kept = (re.split(r"^Raises:|^Source:|^Reply and errors:", one, flags=re.MULTILINE)[0] for one in paragraphs)
    return [one.strip() for one in kept if one.strip()]


def keys_of(command: Command) -> str:
    """Return in words the positions of the keys, and the access to them."""
    first, last, step = command.keys
    done = "; ".join(ACCESSES[flags[0]] for flags in access_of_keys(command))
    if isinstance(command.find_keys, CountedKeys):
        where = f"as many as word {command.find_keys.at} says, behind it"
        return f"word {first}, and {where}: {done}" if first else f"{where}: {done}"
    if not first:
        return "none" if command.find_keys is None else f"behind STREAMS: {done}"
    if last == first:
        where = f"word {first}"
    elif last < 0:
        where = f"from word {first} on" if step == 1 else f"every {ordinal(step)} word from word {first} on"
    else:
        where = f"words {first} to {last}"
    return f"{where}: {done}" + ("; others where the words say so" if command.find_keys is not None else "")


def ordinal(number: int) -> str:
    """Return a small number as a word for a place."""
    return {2: "second", 3: "third"}.get(number, f"{number}th")


def differences_by_command(text: str) -> dict[str, list[Difference]]:
    """Return the rows of the document's tables by the commands that each of them names."""
    found: dict[str, list[Difference]] = defaultdict(list)
    for one in differences(text):
        for name in commands_named(" ".join((one.what, *(text for _, text in one.cells)))):
            found[name].append(one)
    return found


def differences(text: str) -> list[Difference]:
    """Return the rows of all tables of the document, in their order."""
    rows: list[Difference] = []
    titles: list[str] = []
    for line in text.splitlines():
        cells = [one.strip() for one in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            titles = []
        elif not titles:
            titles = cells
        elif set("".join(cells)) != {"-"}:
            rows.append(Difference(cells[0], list(zip(titles[1:], cells[1:], strict=True))))
    return rows


def commands_named(text: str) -> list[str]:
    """Return the names of the commands that a text names, in the form of the table: `xgroup|create`."""
    names = set()
    for word, further in re.findall(r"(?=\b([A-Z_]{3,})(?: ([A-Z_]{3,})\b)?)", text):
        pair = f"{word}|{further}".lower()
        if further and COMMANDS.find(pair.encode()) is not None:
            names.add(pair)
        elif word.lower().encode() in COMMANDS and not is_behind_container(word, text):
            names.add(word.lower())
    return sorted(names)


def is_behind_container(word: str, text: str) -> bool:
    """Return whether a word follows the name of a command with subcommands, as in SCRIPT DEBUG."""
    before = re.search(rf"([A-Z_]{{3,}}) {word}\b", text)
    container = COMMANDS.get(before[1].lower().encode()) if before else None
    return container is not None and bool(container.subcommands)


def escaped(text: str) -> str:
    """Return text without characters that are HTML or emphasis."""
    return re.sub(r"`[^`]*`|[<>*]", lambda match: match[0] if match[0][0] == "`" else f"\\{match[0]}", text)


def cell(text: str) -> str:
    """Return text for one cell of a table."""
    return escaped(text).replace("|", "\\|")
