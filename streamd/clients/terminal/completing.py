"""Shell completion: the names of streams on the server, and the words of commands outside of click."""

import argparse
import os
from collections.abc import Iterator

import click
import redis
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from streamd.clients.sentinels import pool
from streamd.clients.terminal.asking import URL
from streamd.clients.terminal.failing import Trouble
from streamd.clients.terminal.words import COMPLETE

# A shell waits for this: a server that is far away or busy completes nothing.
_ANSWER_S = 1.0
_NAMES_MAX = 100


def complete_stream(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return names of streams with a prefix, of the server in --url or STREAMD_URL; none if it cannot be reached."""
    url = context.params.get("url") or os.environ.get("STREAMD_URL") or URL
    pattern = "".join(f"\\{one}" if one in "*?[]\\" else one for one in incomplete) + "*"
    found: set[bytes] = set()
    try:
        connections = pool(url, patience_s=0, socket_timeout=_ANSWER_S, socket_connect_timeout=_ANSWER_S)
        with redis.Redis.from_pool(connections) as client:
            cursor = 0
            for _ in range(10):
                cursor, keys = client.scan(cursor, match=pattern, count=1_000, _type="stream")
                found.update(keys)
                if cursor == 0 or len(found) >= _NAMES_MAX:
                    break
    except (redis.RedisError, ValueError):
        return []
    names = (name.decode("utf-8", "replace") for name in sorted(found)[:_NAMES_MAX])
    return [CompletionItem(name) for name in names if name.isprintable()]


class _Whole(ShellComplete):
    """Completes `--option=value` as a whole, as a shell replaces it: click returns the value alone."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Return what the word to complete may become."""
        items = super().get_completions(args, incomplete)
        option, equals, _ = incomplete.partition("=")
        if not (option.startswith("-") and equals):
            return items
        return [
            CompletionItem(f"{option}={item.value}", help=item.help) if item.type == "plain" else item for item in items
        ]


class _Bash(_Whole, BashComplete):
    """Takes a word with a colon or an equals sign as one, as in the stream `orders:eu`: Bash takes it as several."""

    # The command's text up to the cursor, and the part of the last word that Bash replaces.
    source_template = BashComplete.source_template.replace(
        "$(env ", '$(env COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_REPLACED="$2" ', 1
    )

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the one to complete, and that word."""
        args, incomplete = super().get_completion_args()
        words = split_arg_string(os.environ.get("COMP_LINE", ""))[1:]
        if words:
            args, incomplete = (words[:-1], words[-1]) if incomplete else (words, "")
        return args, incomplete

    def complete(self) -> str:
        """Return a line for each completion, without what stays in front of it."""
        args, incomplete = self.get_completion_args()
        stays = incomplete.removesuffix(os.environ.get("COMP_REPLACED", incomplete))
        items = self.get_completions(args, incomplete)
        return "\n".join(f"{item.type},{item.value.removeprefix(stays)}" for item in items)


class _Fish(_Whole, FishComplete):
    """Takes a line apart at its first comma only: further ones are part of a name or a description."""

    source_template = FishComplete.source_template.replace('string split ","', 'string split --max 1 ","')


class _Zsh(_Whole, ZshComplete):
    pass


for _kind in (_Bash, _Fish, _Zsh):
    add_completion_class(_kind)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes SHELL complete streamd's commands, options and the names of streams.

    \b
      bash   eval "$(streamd completion bash)"        in ~/.bashrc
      zsh    eval "$(streamd completion zsh)"         in ~/.zshrc, behind compinit
      fish   streamd completion fish | source         in ~/.config/fish/config.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    assert context.parent is not None
    try:
        click.echo(kind(context.parent.command, {}, "streamd", COMPLETE).source())
    except RuntimeError as error:
        raise Trouble(str(error))


def as_group(parser: argparse.ArgumentParser, name: str) -> click.Group:
    """Return an argparse parser as a group of click, for completion; its commands cannot be run."""
    group = click.Group(name, help=parser.description, params=list(_parameters(parser)))
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {one.dest: one.help for one in action._choices_actions}
            for word, below in action.choices.items():
                command = as_group(below, word)
                if not command.commands:
                    group.add_command(click.Command(word, params=command.params, short_help=helps.get(word)))
                else:
                    command.short_help = helps.get(word)
                    group.add_command(command)
    return group


def _parameters(parser: argparse.ArgumentParser) -> Iterator[click.Parameter]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction | argparse._HelpAction):
            continue
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        choices = list(action.choices or (metavar.split("|") if "|" in metavar else []))
        kind: click.ParamType = click.Choice([str(one) for one in choices]) if choices else click.STRING
        if metavar in ("FILE", "DIR", "OUT", "COPY"):
            kind = click.Path()
        if action.option_strings:
            # (Their places in argparse do not matter here, and a name with a dash is no name of Python's.)
            yield click.Option(
                [*action.option_strings, action.dest.replace("-", "_")],
                type=None if action.nargs == 0 else kind,
                is_flag=action.nargs == 0,
                help=(action.help or "").replace("%%", "%"),
            )
        else:
            yield click.Argument([action.dest.replace("-", "_")], type=kind, required=False)
