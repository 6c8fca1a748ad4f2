"""`streamd config check FILE`: what a server would make of a configuration file."""

import argparse
from collections.abc import Callable
from typing import Any

from streamd.base.config import OPTIONS
from streamd.base.failure import EXIT_OK, EXIT_USAGE
from streamd.configuration.layers import read_file


def add_commands(commands: Any, parser_class: Callable[..., argparse.ArgumentParser]) -> None:
    """Add `config` to the commands of a command line."""
    parser = commands.add_parser(
        "config",
        help="examine a configuration file",
        description="Examine a configuration file without starting a server.",
        allow_abbrev=False,
    )

    def show(arguments: argparse.Namespace) -> int:
        parser.print_help()
        return EXIT_USAGE

    parser.set_defaults(action=show)
    actions = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=parser_class)
    check = actions.add_parser(
        "check",
        help="say what a server would make of a file",
        description="Say every fault of a file in redis.conf's words, what it sets, and what does not apply to streamd."
        " Exit code 2 if a server would not start with it.",
        allow_abbrev=False,
    )
    check.add_argument("file", metavar="FILE", help="a configuration file, Redis's own, say")
    check.set_defaults(action=_check)


def _check(arguments: argparse.Namespace) -> int:
    found = read_file(arguments.file)
    for name, value in sorted(found.values.items()):
        option = OPTIONS[name]
        note = " (the default)" if value == option.default else ""
        text = "(not shown)" if "pass" in name and value else option.format(value) or '""'
        print(f"sets          {name} {text}{note}")
    for note in found.notes():
        print(f"passes over   {note}")
    for fault in found.faults:
        print(f"wrong         {fault}")
    if found.faults:
        count = len(found.faults)
        print(f"A server does not start with this file: {count} {'fault' if count == 1 else 'faults'}.")
        return EXIT_USAGE
    print("A server starts with this file.")
    return EXIT_OK
