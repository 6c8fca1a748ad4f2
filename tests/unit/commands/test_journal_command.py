"""JOURNAL, its earlier name BACKUP, and which of the two a client uses."""

import pytest
import redis

from streamd.catalog import COMMANDS
from streamd.clients.remote_journal import RemoteJournal, SourceError
from tests.session import Error

NAMES = [b"begin", b"read", b"mark", b"end"]


@pytest.mark.parametrize("name", NAMES)
def test_both_names_are_one_command(name):
    new, earlier = (COMMANDS[container].subcommands[name] for container in (b"journal", b"backup"))
    assert new.handler is earlier.handler
    assert (new.arity, new.flags, new.acl, new.syntax) == (earlier.arity, earlier.flags, earlier.acl, earlier.syntax)
    assert earlier.summary == f"Deprecated: another name of JOURNAL {name.decode().upper()}."


@pytest.mark.parametrize("word", ["START", "SEAL", "ABORT", "CLEANUP", "STATUS", "LIST"])
def test_what_redis_has_under_backup_is_unknown_and_the_error_says_what_to_do(engine, word):
    text = f"ERR unknown subcommand '{word}'. To make a backup run: streamd backup --url URL DIR"
    assert engine.do(f"BACKUP {word}") == Error(text)
    assert engine.do(f"COMMAND INFO backup|{word}") == [None]


def test_the_advice_is_of_backup_alone(engine):
    assert engine.do("JOURNAL START") == Error("ERR unknown subcommand 'START'. Try JOURNAL HELP.")


def test_help_lists_what_is_there_and_where_to(engine):
    lines = engine.do("BACKUP HELP")
    assert [line.split()[0].lower().encode() for line in lines if line[0].isupper()][1:] == [*NAMES, b"help"]
    assert any("other names of JOURNAL" in line for line in lines)


class Answering:
    """A client whose server answers each name of the command with a reply or an error."""

    def __init__(self, **answers):
        self.answers = answers
        self.asked = []

    def execute_command(self, name, *words):
        self.asked.append(f"{name} {words[0]}")
        answer = self.answers[name]
        if isinstance(answer, Exception):
            raise answer
        return answer if words[0] == "BEGIN" else []


UNKNOWN = redis.ResponseError("unknown command 'JOURNAL', with args beginning with: 'BEGIN' '1000' ")
OF_REDIS = redis.ResponseError("unknown subcommand 'BEGIN'. Try BACKUP HELP.")
NO_BACKUP = redis.exceptions.NoPermissionError("User ann has no permissions to run the 'backup|begin' command")
NO_JOURNAL = redis.exceptions.NoPermissionError("User ann has no permissions to run the 'journal|begin' command")
NO_HELLO = redis.exceptions.NoPermissionError("User ann has no permissions to run the 'hello' command")
FULL = redis.ResponseError("4 backups are under way; try again when one has ended")
FILES = [[b"base", 5]]


OF_A_REDIS = (
    "it is a Redis, and backup copies the journal of a streamd. To move its data to streamd let it write a"
    " journal: CONFIG SET aof-use-rdb-preamble no, then BGREWRITEAOF, then serve a copy of its directory"
)


def begin(client):
    journal = RemoteJournal(client)
    found = journal.begin(lambda: None)
    journal.mark()
    return found


@pytest.mark.parametrize("refusal", [UNKNOWN, NO_JOURNAL])
def test_a_client_that_is_refused_the_name_uses_the_earlier_one_to_the_end(refusal):
    client = Answering(JOURNAL=refusal, BACKUP=FILES)
    assert begin(client) == [("base", 5)]
    assert client.asked == ["JOURNAL BEGIN", "BACKUP BEGIN", "BACKUP MARK"]


def test_a_client_that_is_not_refused_uses_the_present_name_alone():
    client = Answering(JOURNAL=FILES)
    assert begin(client) == [("base", 5)]
    assert client.asked == ["JOURNAL BEGIN", "JOURNAL MARK"]


@pytest.mark.parametrize(
    ("of_journal", "of_backup", "said"),
    [
        (UNKNOWN, UNKNOWN, OF_A_REDIS),
        (UNKNOWN, OF_REDIS, OF_A_REDIS),
        (UNKNOWN, NO_BACKUP, f"{NO_BACKUP}; a user for backups needs +backup +hello +client|setinfo"),
        (NO_JOURNAL, NO_BACKUP, f"{NO_JOURNAL}; a user for backups needs +journal +hello +client|setinfo"),
        (NO_JOURNAL, OF_REDIS, f"{NO_JOURNAL}; a user for backups needs +journal +hello +client|setinfo"),
        (NO_HELLO, FILES, f"{NO_HELLO}; a user for backups needs +journal +hello +client|setinfo"),
        (FULL, FILES, str(FULL)),
        (NO_JOURNAL, FULL, str(FULL)),
    ],
)
def test_who_gets_no_backup_is_told_the_reason_that_helps(of_journal, of_backup, said):
    with pytest.raises(SourceError) as caught:
        begin(Answering(JOURNAL=of_journal, BACKUP=of_backup))
    assert str(caught.value) == f"the server refuses it: {said}"
