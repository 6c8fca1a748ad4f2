"""Puts the commands of click together, and runs one."""

import argparse
import os
from collections.abc import Callable

import click

from streamd.clients.terminal.bench import bench
from streamd.clients.terminal.completing import as_group, completion
from streamd.clients.terminal.failing import EXIT_OK, EXIT_USAGE, Trouble
from streamd.clients.terminal.showing import let_go_of_output
from streamd.clients.terminal.tail import tail
from streamd.clients.terminal.top import top
from streamd.clients.terminal.words import COMMANDS, COMPLETE

_OWN = {"tail": tail, "top": top, "bench": bench, "completion": completion}


class _Endings(click.Group):
    """Ends cleanly at Ctrl-C, and when the reader of the output is gone."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            return EXIT_OK
        except BrokenPipeError:
            let_go_of_output()
            return EXIT_OK


@click.group("streamd", cls=_Endings, context_settings={"help_option_names": ["-h", "--help"]})
def terminal() -> None:
    """The commands for looking at a running server."""


for _name, _command in _OWN.items():
    _command.short_help = COMMANDS[_name]
    terminal.add_command(_command, _name)


def run(words: list[str], parser: Callable[[], argparse.ArgumentParser]) -> int:
    """Run a command line, or answer a shell's completion; return the exit code. Ctrl-C is a normal end."""
    group: click.Group = terminal
    if COMPLETE in os.environ:
        group = as_group(parser(), "streamd")
        for name, command in _OWN.items():
            group.add_command(command, name)
    try:
        code = group.main(words, prog_name="streamd", standalone_mode=False, complete_var=COMPLETE)
        return code if isinstance(code, int) else EXIT_OK
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "streamd"
        Trouble(f"{_first_small(error.format_message())} (see {where} --help)").show()
        return EXIT_USAGE
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return EXIT_OK
    except SystemExit as end:  # a shell was answered
        return end.code if isinstance(end.code, int) else EXIT_OK


def _first_small(text: str) -> str:
    text = text.rstrip(".")
    return text[:1].lower() + text[1:]
