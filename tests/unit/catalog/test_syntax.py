"""The notation of a command's syntax becomes the tree of its arguments."""

import pytest

import streamd.commands  # noqa: F401  (declares the commands)
from streamd.catalog import COMMANDS
from streamd.catalog.syntax import Argument, parse_syntax


def shown(argument: Argument) -> str:
    """Return an argument as one word: [optional], {block}, (oneof), TOKEN=argument, argument... for several, ...! each
    with its token.
    """
    text = argument.token or argument.name
    if argument.kind in ("oneof", "block"):
        inside = ("|" if argument.kind == "oneof" else " ").join(map(shown, argument.members))
        text = ("(%s)" if argument.kind == "oneof" else "{%s}") % inside
        text = f"{argument.token}={text}" if argument.token else text
    elif argument.token and argument.kind != "pure-token":
        text = f"{argument.token}={argument.name}"
    text += "...!" if argument.multiple_token else "..." if argument.multiple else ""
    return f"[{text}]" if argument.optional else text


@pytest.mark.parametrize(
    ("syntax", "tree"),
    [
        ("", ""),
        ("key", "key"),
        ("key value", "key value"),
        ("[message]", "[message]"),
        ("key [key ...]", "key..."),
        ("[key [key ...]]", "[key...]"),
        ("key value [key value ...]", "{key value}..."),
        ("key field value [field value ...]", "key {field value}..."),
        ("[NX | XX] [GET]", "[(NX|XX)] [GET]"),
        ("[EX seconds | KEEPTTL]", "[(EX=seconds|KEEPTTL)]"),
        ("[AUTH username password]", "[AUTH={username password}]"),
        ("<MAXLEN | MINID> [= | ~] threshold [LIMIT count]", "(MAXLEN|MINID) [(=|~)] threshold [LIMIT=count]"),
        ("[<MAXLEN | MINID> threshold]", "[{(MAXLEN|MINID) threshold}]"),
        ("STREAMS key [key ...] id [id ...]", "STREAMS={key... id...}"),
        ("[ID client-id [client-id ...]]", "[ID={client-id...}]"),
        ("[PREFIX prefix [PREFIX prefix ...]] [NOLOOP]", "[PREFIX=prefix...!] [NOLOOP]"),
        ("[TYPE <NORMAL | PUBSUB>]", "[TYPE=(NORMAL|PUBSUB)]"),
        ("[FULL [COUNT count]]", "[{FULL [COUNT=count]}]"),
        ("<* | id> field", "(*|id) field"),
        ("[protover [AUTH user pass]]", "[{protover [AUTH={user pass}]}]"),
    ],
)
def test_a_syntax_is_parsed(syntax, tree):
    assert " ".join(map(shown, parse_syntax(syntax))) == tree


@pytest.mark.parametrize(
    ("syntax", "kinds"),
    [
        ("key seconds", ["key", "integer"]),
        ("start:integer end:double", ["integer", "double"]),
        ("ip:port", ["string"]),
        ("MATCH", ["pure-token"]),
        ("pattern", ["pattern"]),
        ("NX | XX", ["oneof"]),
        ("EXAT unix-time-seconds", ["unix-time"]),
    ],
)
def test_an_argument_has_the_type_that_its_name_says(syntax, kinds):
    assert [argument.kind for argument in parse_syntax(syntax)] == kinds


@pytest.mark.parametrize("syntax", ["[key", "key]", "<key", "key [id ...]", "[key <id]>"])
def test_a_broken_notation_is_refused(syntax):
    with pytest.raises(ValueError, match=r"unbalanced|no '|repeat"):
        parse_syntax(syntax)


@pytest.mark.parametrize("name", sorted(one.name for one in COMMANDS.leaves()))
def test_the_syntax_of_every_command_can_be_parsed(name):
    command = COMMANDS.find(name.encode())
    assert command is not None
    arguments = parse_syntax(command.syntax)
    if command.keys[0] and not command.find_keys:
        assert any(argument.kind == "key" or argument.members for argument in arguments), "no key in its syntax"
