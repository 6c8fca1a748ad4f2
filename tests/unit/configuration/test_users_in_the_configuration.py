"""Users in the configuration file: CONFIG REWRITE writes what ACL SETUSER and DELUSER have changed, and no more."""

from pathlib import Path

import pytest

from streamd.configuration.file import read_file
from streamd.configuration.rewriting import GENERATED, rewrite_file
from streamd.configuration.server_options import Config
from tests.session import Error, Session

BEFORE = b"""# who may do what
user ann on nopass ~a +get\r
  user bob on nopass +@all
maxclients 50
user "c\\x79d" on nopass "(~a +get)"
"""


def start(path: Path, *flag_users: list[bytes], **options: str) -> Session:
    """Return a server that was started with a file."""
    config = Config(**options)
    found = read_file(str(path))
    assert not found.faults
    config.values.update(found.values)
    config.path, config.users, config.flag_users = str(path), found.users, list(flag_users)
    config.on_rewrite = lambda users: rewrite_file(config.path, config, config.changed, users)
    return Session(config=config)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "redis.conf"
    path.write_bytes(BEFORE)
    return path


def test_a_rewrite_changes_the_lines_of_users_that_were_changed_and_nothing_else(path):
    session = start(path)
    session.do("ACL SETUSER ann ~b -get +set")
    session.do("ACL SETUSER eve on >secret &x (%R~c +@read)")
    session.do("ACL DELUSER bob")
    session.do("CONFIG SET maxclients 60")

    assert session.do("CONFIG REWRITE") == "OK"

    line = session.do("ACL LIST")[3]
    assert line.startswith(b"user eve on sanitize-payload #")
    assert path.read_bytes() == (
        BEFORE.replace(b"~a +get\r", b"sanitize-payload ~a ~b resetchannels -@all -get +set\r")
        .replace(b"  user bob on nopass +@all\n", b"")
        .replace(b"maxclients 50", b"maxclients 60")
        + b"\n%b\n%b\n" % (GENERATED, line)
    )
    assert start(path).do("ACL LIST") == session.do("ACL LIST")


def test_a_second_rewrite_takes_away_what_the_first_has_added(path):
    session = start(path)
    session.do("ACL SETUSER eve on nopass +@all")
    session.do("CONFIG REWRITE")
    assert b"\nuser eve " in path.read_bytes()

    session.do("ACL DELUSER eve")
    session.do("CONFIG REWRITE")

    assert path.read_bytes() == BEFORE + b"\n" + GENERATED + b"\n"


def test_a_rewrite_without_changes_leaves_the_file_as_it_is(path):
    session = start(path)
    session.do("CONFIG REWRITE")
    assert path.read_bytes() == BEFORE


@pytest.mark.parametrize(
    "changes",
    [["CONFIG SET requirepass one"], ["CONFIG SET requirepass one", "ACL SETUSER default resetkeys ~b"],
     ["ACL SETUSER default off"], ["ACL SETUSER default reset on nopass +@all ~*"]],
    ids=" then ".join,
)  # fmt: skip
def test_the_user_default_is_written_where_the_password_alone_does_not_make_it(path, changes):
    session = start(path)
    for change in changes:
        session.do(change)
    session.do("CONFIG REWRITE")

    assert (b"\nuser default " in path.read_bytes()) == changes[-1].startswith("ACL")
    again, now = (one.engine.state.users.lines() for one in (start(path), session))
    assert again == now


def test_users_that_a_flag_gives_are_not_written_for_the_next_start_gives_them_again(path):
    given = [b"fay", b"on", b"nopass", b"+get"]
    session = start(path, given)
    session.do("ACL SETUSER fay +set")
    session.do("ACL SETUSER ann +set")

    session.do("CONFIG REWRITE")

    assert b"fay" not in path.read_bytes()
    assert start(path, given).do("ACL DRYRUN ann SET a 1") == "OK"


def test_users_that_have_a_file_of_their_own_are_not_written(tmp_path):
    path, users = tmp_path / "redis.conf", tmp_path / "users.acl"
    users.write_text("user ann on nopass +get\n")
    path.write_text(f"aclfile {users}\n")
    session = start(path)
    session.do("ACL SETUSER eve on nopass +@all")

    assert session.do("CONFIG REWRITE") == "OK"

    assert path.read_text() == f"aclfile {users}\n"


def test_a_user_of_an_included_file_that_was_changed_is_an_error_and_nothing_is_written(tmp_path):
    path, other = tmp_path / "redis.conf", tmp_path / "users.conf"
    other.write_text("user ann on nopass +get\n")
    path.write_text("include users.conf\nmaxclients 50\n")
    session = start(path)
    session.do("CONFIG SET maxclients 60")
    session.do("ACL SETUSER eve on nopass +@all")
    session.do("ACL SETUSER ann +set")

    assert session.do("CONFIG REWRITE") == Error(
        "ERR Rewriting config file: the user 'ann' stands in a file that it includes"
    )

    assert path.read_text() == "include users.conf\nmaxclients 50\n"
    session.do("ACL SETUSER ann reset on nopass resetchannels +get")
    session.do("ACL DELUSER ann")
    assert isinstance(session.do("CONFIG REWRITE"), Error)


def test_a_file_that_begins_with_the_mark_of_some_editors_is_read_and_keeps_it(tmp_path):
    path = tmp_path / "redis.conf"
    path.write_bytes(b"\xef\xbb\xbfmaxclients 50\n")
    session = start(path)
    assert session.do("CONFIG GET maxclients") == [b"maxclients", b"50"]

    session.do("CONFIG SET maxclients 60")
    session.do("CONFIG REWRITE")

    assert path.read_bytes() == b"\xef\xbb\xbfmaxclients 60\n"
