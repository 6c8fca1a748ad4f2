"""Any lines of a file of users are refused by one line without passwords, or make users who come back from their text,
and whom the tables that requests are looked up in allow just what the rules themselves allow.

Input: the lines of an ACL file; the rules of each line are also given to ACL SETUSER, one user after the other.
"""

import re
from functools import cache

import streamd.commands  # noqa: F401  (declares the commands)
from streamd.acl.decision import decide
from streamd.acl.user import User
from streamd.acl.users import UserFileError, Users
from streamd.acl.vocabulary import Vocabulary
from streamd.base.errors import CommandError
from streamd.catalog import COMMANDS, CommandTable
from streamd.catalog.guard import Guard
from streamd.catalog.named import named_by, vocabulary_of
from streamd.engine.admission import find_command, quick_commands
from streamd.resp.encoder import encode

HASH = b"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
WORDS = [b"user ", b"\nuser ", b"default", b"on", b"off", b"nopass", b"resetpass", b"reset", b">one", b"<one",
         b"#" + HASH, b"!" + HASH, b"~*", b"~a", b"%R~", b"%W~b", b"%RW~", b"[ab]", b"[^a-", b"\\", b"?", b"&*", b"&a",
         b"resetkeys", b"allchannels", b"resetchannels", b"+@all", b"-@all", b"+@read", b"-@write", b"+@", b"+get",
         b"-set", b"+config|get", b"-config", b"+select|0", b"+select|", b"(", b")", b"(~a +get)", b"clearselectors",
         b"skip-sanitize-payload"]  # fmt: skip
BYTES_MAX = 2048
REQUESTS = [
    line.split()
    for line in (
        b"GET a", b"GET ab", b"SET a 1", b"SET b 1 GET", b"SELECT 0", b"SELECT 1", b"MGET a b", b"DEL b a", b"COPY a b",
        b"XADD a * f v", b"XREAD STREAMS a b 0 0", b"XREADGROUP GROUP g c STREAMS b >", b"SORT a STORE b", b"XLEN b",
        b"EVAL x 1 a", b"ZUNIONSTORE a 1 b", b"CONFIG GET hz", b"CONFIG SET hz 1", b"PUBLISH a x", b"SUBSCRIBE a b",
        b"PSUBSCRIBE a*", b"PING", b"HELLO", b"OBJECT ENCODING a", b"BITFIELD a GET u8 0", b"MSET a 1 b 2",
    )
]  # fmt: skip
# As pipelines: what may run as one run of like requests.
PIPELINES = [
    [b"%b %b %b" % (name, key, words) for key in keys]
    for name, words in ((b"XADD", b"* f v"), (b"GET", b""), (b"XDEL", b"1-1"), (b"SET", b"v"), (b"MGET", b"ab"))
    for keys in ((b"a", b"a", b"b"), (b"b", b"ab", b"a"), (b"a\nb", b"a", b"\na"))
]


@cache
def commands() -> tuple[CommandTable, Vocabulary]:
    """Return the commands that there are, and what rules can name."""
    table = COMMANDS.copy_for_server()
    return table, vocabulary_of(table)


def lines_of(data: bytes) -> list[bytes]:
    """Return the lines of an input."""
    return data.split(b"\n")


def passwords_in(data: bytes) -> list[bytes]:
    """Return what stands where passwords do, and nowhere else, and is found in no message by chance."""
    found: list[bytes] = re.findall(rb"(?:^|[ ])[><#!]((?=[A-Za-z]*[0-9])[0-9A-Za-z]{8,})", data)
    return [word for word in found if found.count(word) == data.count(word)]


def check_user(user: User, table: CommandTable, vocabulary: Vocabulary) -> None:
    """Raise AssertionError unless the tables say what the rules say, twice: what was allowed is remembered."""
    guard = Guard(user, vocabulary, table, quick_commands(table), slow=[])
    for _ in range(2):
        for request in REQUESTS:
            command = find_command(table, request)
            expected = decide(user, named_by(vocabulary, command, request)).reason == "ok"
            assert guard.allows(command, request) == expected, (user.text(), request)
            # What the engine asks before it asks for more.
            if request[0] in guard.all_quick and not expected:
                assert request[1] not in guard.names[command.name], (user.text(), request)
        for lines in PIPELINES:
            requests = [line.split(b" ") for line in lines]
            requests = [[word for word in request if word] for request in requests]
            command = find_command(table, requests[0])
            allowed = [decide(user, named_by(vocabulary, command, one)).reason == "ok" for one in requests]
            if allowed[0] and requests[0][0] in guard.all_quick:  # otherwise there are no runs
                for end in range(1, 4):
                    expected_end = [*allowed[:end], False].index(False)
                    assert guard.end_of_run(command, requests, 0, end) == expected_end, (user.text(), requests)
                if command.name in ("get", "set"):  # of these a batch asks for the column of the keys
                    keys = [one[1] for one in requests]
                    assert not guard.allows_keys(command, keys) or all(allowed), (user.text(), requests)


def check(data: bytes) -> None:
    """Raise AssertionError unless the file is refused, or makes users that are what they say."""
    if len(data) > BYTES_MAX:
        return
    table, vocabulary = commands()
    users = Users(vocabulary)
    try:
        found = users.read(lines_of(data), "users.acl")
    except UserFileError as error:
        said = str(error).encode("utf-8", "surrogateescape")
        assert len(said.splitlines()) == 1, said
        assert not [word for word in passwords_in(data) if word in said], said
    else:
        users.replace(found)
        text = users.lines()
        again = Users(vocabulary)
        again.replace(again.read(text, "users.acl"))
        assert again.lines() == text
        for user in users:
            check_user(user, table, vocabulary)
    by_command(lines_of(data))


def by_command(lines: list[bytes]) -> None:
    """Raise AssertionError unless ACL SETUSER takes all rules of a line or none, and its users are what they say."""
    table, vocabulary = commands()
    users = Users(vocabulary)
    for line in lines:
        before = users.lines()
        try:
            made = users.changed(b"ann", line.split(b" ")[2:])
        except CommandError as error:
            line_sent = encode(error, 2)
            assert line_sent[-2:] == b"\r\n"
            assert len(line_sent[:-2].splitlines()) == 1, line_sent
            assert users.lines() == before
            continue
        users.put(made)
        assert users.get(b"ann").text() == made.text()  # type: ignore[union-attr]
        again = Users(vocabulary)
        again.put(again.changed(b"ann", [b"reset", *made.text().split(b" ")]))
        check_user(made, table, vocabulary)
