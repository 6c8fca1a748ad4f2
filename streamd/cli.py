"""The command line: `streamd serve` and the other subcommands."""

import argparse
import io
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NoReturn

from streamd.base import collector
from streamd.base.failure import EXIT_BUG, EXIT_CODES, EXIT_OK, EXIT_USAGE, Failure
from streamd.base.form import form, stale_file
from streamd.base.version import REDIS_VERSION, VERSION
from streamd.clients.terminal import handing_over
from streamd.clients.terminal.words import COMMANDS as CLICKS_COMMANDS

# Each command with what the list of them says.
COMMANDS: Final = {
    "serve": "run a server",
    "check": "examine the journal of a data directory",
    "backup": "copy a running server's data to this machine",
    "restore": "put a backup into a data directory",
    "config": "examine a configuration file",
    "topics": "logs of messages by topic: create, publish, tail, info, drop",
    "mqtt": "a gateway for devices that speak MQTT",
    **CLICKS_COMMANDS,
    "ui": "a page that shows the streams of a server",
}


_Options = Callable[[argparse.ArgumentParser], None]


class _Parser(argparse.ArgumentParser):
    def __init__(self, **words: Any) -> None:
        # argparse makes a formatter for each option that is added, which asks the terminal for its width, too.
        super().__init__(**words, allow_abbrev=False, formatter_class=partial(argparse.HelpFormatter, width=80))

    def format_help(self) -> str:
        """Return the help, as wide as the terminal."""
        has_lines = "\n" in (self.epilog or "")
        self.formatter_class = argparse.RawDescriptionHelpFormatter if has_lines else argparse.HelpFormatter
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        message = message.replace("expected 2 arguments", "give host and port of the primary, as in 10.0.0.5 6379")
        raise Failure(EXIT_USAGE, f"{message} (see {self.prog} --help)")


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    _open_missing_streams()
    _take_any_text()
    words = sys.argv[1:] if argv is None else argv
    try:
        if stale := stale_file():
            raise Failure(
                EXIT_USAGE, f"{stale} was compiled from an earlier version: remove it, or install streamd anew"
            )
        if words[:1] == ["help"]:
            words = [*words[1:2], "--help"]
        _check_command(words)
        if handing_over.takes(words):
            return handing_over.run(words, partial(_parser, [*COMMANDS]))
        parser = _parser(words)
        try:
            arguments, unknown = parser.parse_known_args(words)
        except Failure:  # which may be about the value of an option that is not known
            command, option = _first_unknown(parser, words)
            if option is None:
                raise
            raise Failure(EXIT_USAGE, _unknown(option, command)) from None
        if unknown and not getattr(arguments, "takes_any", False):
            raise Failure(EXIT_USAGE, _unknown(unknown[0], _first_unknown(parser, words)[0]))
        action = getattr(arguments, "action", None)
        if action is None:
            _parser([]).print_help()
            return EXIT_USAGE
        code: int = action(arguments)
        return code
    except Failure as failure:
        print(f"streamd: {failure}", file=sys.stderr)
        return failure.code
    except KeyboardInterrupt:
        return EXIT_OK
    except BrokenPipeError:
        return EXIT_OK
    except Exception:
        from streamd.base.log import log

        log.exception("bug", "a bug in streamd")
        return EXIT_BUG


def _check_command(words: list[str]) -> None:
    """Check the first word. Raises: Failure, for a word that is no command, with the most similar one."""
    if not words or words[0].startswith("-") or words[0] in COMMANDS:
        return
    import difflib

    near = difflib.get_close_matches(words[0], COMMANDS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(COMMANDS)}"
    raise Failure(EXIT_USAGE, f"no command {words[0]}; {hint} (see streamd --help)")


def _first_unknown(parser: argparse.ArgumentParser, words: list[str]) -> tuple[argparse.ArgumentParser, str | None]:
    """Return the first option among the words that its command does not have, or None, and the innermost command."""
    rest = iter(words)
    for word in rest:
        if word.startswith("--"):
            name, equals, _ = word.partition("=")
            option = parser._option_string_actions.get(name)
            if option is None:
                return parser, word
            if option.nargs is None and not equals:
                next(rest, None)  # its value, which may look like a command
            continue
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction) and word in action.choices:
                parser = action.choices[word]
                break
    return parser, None


def _unknown(word: str, command: argparse.ArgumentParser) -> str:
    from streamd.configuration.layers import nearest, without_flag
    from streamd.configuration.server_options import ALIASES, OPTIONS, meant

    if not word.startswith("--"):
        return f"{word} is not known (see {command.prog} --help)"
    name = word.removeprefix("--").partition("=")[0]
    if command.prog == "streamd serve":
        near = nearest(name).replace("'", "'--", 1)
        if name in ALIASES and OPTIONS[ALIASES[name]].flag:
            near = f"; did you mean '--{ALIASES[name]}'?"
        return without_flag(name) or f"{word} is not known{near}"
    names = [one.removeprefix("--") for action in command._actions for one in action.option_strings]
    near = meant(name, names).replace("'", "'--", 1)
    return f"{word} is not known{near or f' (see {command.prog} --help)'}"


def _take_any_text() -> None:
    """Let the output show any text: what its encoding lacks (the locale is not UTF-8) comes as an escape."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="backslashreplace")


def _open_missing_streams() -> None:
    """Give a process that was started with closed standard streams empty ones: else a socket becomes number 1."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _parser(words: list[str]) -> _Parser:
    """Return a parser that names all commands, and knows the options of those among the words."""
    parser = _Parser(
        prog="streamd",
        description="A Redis-protocol stream server: a resent entry is stored once.",
        epilog=EXIT_CODES,
    )
    version = f"streamd {VERSION} (Redis {REDIS_VERSION} commands), {form()}"
    parser.add_argument("-V", "--version", action="version", version=version)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, text in COMMANDS.items():
        add_options = _options_of(name) if name in words else None
        one = commands.add_parser(name, help=text, add_help=add_options is not None)
        if add_options is not None:
            add_options(one)
    return parser


def _options_of(name: str) -> _Options | None:
    """Return the function that adds the options of a command to its parser; None for a command that click takes.

    (A command's modules are imported for it alone. A server's start does not wait for those of a backup or the page.)
    """
    add_options: _Options
    match name:
        case "serve":
            collector.pause()
            from streamd.serving import add_options
        case "check":
            from streamd.checking.data_directory import add_options
        case "backup":
            from streamd.backup.cli import add_backup_options as add_options
        case "restore":
            from streamd.backup.cli import add_restore_options as add_options
        case "config":
            from streamd.checking.configuration_file import add_options
        case "topics":
            from streamd.clients.topics.cli import add_options
        case "mqtt":
            from streamd.clients.mqtt.cli import add_options
        case "ui":
            from streamd.clients.ui.cli import add_options
        case _:
            return None
    return add_options
