"""COMMAND describes every command that Redis 8.10.2 knows as that does."""

import pytest

from tests.differential.redis_process import RawClient, needs_redis, running_redis
from tests.session import Session, decode

pytestmark = needs_redis

# The commands of Redis that streamd does not have, by the reason. A container stands for its subcommands.
LACKING = {
    "arrays, a type of value that streamd does not have": (
        "arcount ardel ardelrange arget argetrange argrep arinfo arinsert arlastitems arlen armget armset arnext arop "
        "arring arscan arseek arset"
    ),
    "vector sets, a module of Redis": (
        "vadd vcard vdim vemb vgetattr vinfo vismember vlinks vrandmember vrange vrem vsetattr vsim"
    ),
    "geographical sets": (
        "geoadd geodist geohash geopos georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch "
        "geosearchstore"
    ),
    "HyperLogLogs": "pfadd pfcount pfdebug pfmerge pfselftest",
    "there is no cluster": ("restore-asking spublish ssubscribe sunsubscribe trimslots"),
    "a replica of streamd sends PSYNC": "sync",
    "modules are not loaded": "module|load module|loadex module|unload",
    "a backup is made by `streamd backup`, with JOURNAL": (
        "backup|abort backup|cleanup backup|list backup|seal backup|start backup|status"
    ),
    "it sends hashes in parts between Redis servers": "himport",
    "keys are not counted by their use": "hotkeys",
    "there is no debugger of scripts": "script|debug",
    "it has no use": "lolwut",
}
# Other names of JOURNAL, for one version: streamd had them before Redis had a BACKUP.
DIFFERING = {b"backup", b"backup|help"}


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as port:
        yield port


@pytest.fixture(scope="module")
def both(port):
    """Return a function that asks both servers, and returns what streamd and what Redis answered."""
    streamd, redis = Session(), RawClient(port)
    streamd.do("HELLO 3")
    redis.ask([b"HELLO", b"3"])
    yield lambda *words: (streamd.execute([*words]), decode(redis.ask([*words]))[0])
    redis.close()


def described(reply) -> dict:
    """Return commands and subcommands by name; what has no order sorted; Redis's notes left out."""
    found = {}
    for name, arity, flags, first, last, step, categories, tips, specs, subcommands in filter(None, reply):
        plain = [{word: part for word, part in spec.items() if word != b"notes"} for spec in specs]
        shape = [arity, sorted(flags), first, last, step, sorted(categories), sorted(tips), plain]
        found[name.lower()] = shape
        found |= described(subcommands)
    return found


def documented(reply: dict) -> dict:
    """Return the version and the group of commands and subcommands by name."""
    found = {}
    for name, docs in reply.items():
        found[name.lower()] = docs[b"since"], docs[b"group"]
        found |= documented(docs.get(b"subcommands", {}))
    return found


def in_both(ours: dict, theirs: dict) -> list[dict]:
    shared = ours.keys() & theirs.keys() - DIFFERING
    assert len(shared) > 250
    return [{name: found[name] for name in shared} for found in (ours, theirs)]


def test_commands_are_described_as_redis_describes_them(both):
    ours, theirs = map(described, both(b"COMMAND", b"INFO"))
    ours, theirs = in_both(ours, theirs)
    assert ours == theirs


def test_every_command_of_redis_is_here_or_lacking_for_a_reason(both):
    ours, theirs = map(described, both(b"COMMAND"))
    lacking = {name.encode() for names in LACKING.values() for name in names.split()}
    assert not lacking & ours.keys()
    assert {name for name in theirs.keys() - ours.keys() if name.split(b"|")[0] not in lacking} <= lacking


def test_commands_are_of_the_version_and_the_group_that_redis_documents(both):
    ours, theirs = in_both(*map(documented, both(b"COMMAND", b"DOCS")))
    assert ours == theirs


@pytest.mark.parametrize("category", [b"transaction", b"connection", b"blocking", b"scripting", b"dangerous"])
def test_lists_of_commands_hold_what_those_of_redis_hold(both, category):
    known = both(b"COMMAND", b"LIST")
    ours, theirs = map(set, both(b"COMMAND", b"LIST", b"FILTERBY", b"ACLCAT", category))
    shared = set(known[0]) & set(known[1]) - DIFFERING
    assert ours & shared == theirs & shared
    assert ours & shared


def test_the_count_is_that_of_the_list(both):
    for count, names in zip(both(b"COMMAND", b"COUNT"), both(b"COMMAND", b"LIST"), strict=True):
        assert count == len([name for name in names if b"|" not in name])
