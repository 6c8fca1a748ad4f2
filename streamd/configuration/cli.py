"""`streamd config check FILE`: what a server would make of a configuration file."""

import argparse

from streamd.base.config import OPTIONS
from streamd.base.failure import EXIT_OK, EXIT_USAGE
from streamd.configuration.file import read_file


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what `streamd config` takes."""
    parser.description = "Examine a configuration file without starting a server."

    def show(arguments: argparse.Namespace) -> int:
        parser.print_help()
        return EXIT_USAGE

    parser.set_defaults(action=show)
    actions = parser.add_subparsers(title="commands", metavar="COMMAND")
    check = actions.add_parser(
        "check",
        help="say what a server would make of a file",
        description="Say every fault of a file in redis.conf's words, what it sets, and what does not apply to streamd."
        " Exit code 2 if a server would not start with it.",
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
