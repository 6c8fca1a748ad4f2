"""`streamd config check FILE`: shows how a server would read a configuration file."""

import argparse
from collections.abc import Callable

from streamd.acl.users import UserFileError
from streamd.base.failure import EXIT_OK, EXIT_USAGE
from streamd.cold.settings import check_stream_memory
from streamd.configuration.file import FromFile, read_file
from streamd.configuration.option import ConfigError
from streamd.configuration.server_options import OPTIONS, SECRET_OPTIONS, Config
from streamd.engine.engine import Engine
from streamd.net.replica_link import check_replication
from streamd.net.tls import make_context


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `streamd config`."""
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


def _faults(found: FromFile) -> list[str]:
    """Return the faults of a file whose single lines are right: its users, its certificates."""
    config = Config()
    config.values.update(found.values)
    config.users = found.users
    faults = []
    try:
        Engine(config=config)
    except UserFileError as error:
        faults.append(f"users: {error}")
    checks: list[Callable[[Config], object]] = [check_replication, check_stream_memory]
    if config.integer("tls-port"):
        checks.insert(0, make_context)
    for check in checks:
        try:
            check(config)
        except ConfigError as error:
            faults.append(str(error))
    return faults


def _check(arguments: argparse.Namespace) -> int:
    found = read_file(arguments.file)
    faults = [str(fault) for fault in found.faults] or _faults(found)
    for name, value in sorted(found.values.items()):
        option = OPTIONS[name]
        note = " (the default)" if value == option.default else ""
        text = "(not shown)" if name in SECRET_OPTIONS and value else option.format(value) or '""'
        print(f"sets          {name} {text}{note}")
    for note in found.notes():
        print(f"passes over   {note}")
    for fault in faults:
        print(f"wrong         {fault}")
    if faults:
        count = len(faults)
        print(f"A server does not start with this file: {count} {'fault' if count == 1 else 'faults'}.")
        return EXIT_USAGE
    print("A server starts with this file.")
    return EXIT_OK
