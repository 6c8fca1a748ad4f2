"""Users, what they may do, and what others see of it."""

import pytest

from streamd.configuration.server_options import Config
from tests.session import Error, Session

COMMAND = "NOPERM User ann has no permissions to run the '{}' command"
KEY = "NOPERM No permissions to access a key"
CHANNEL = "NOPERM No permissions to access a channel"
WRONG = "WRONGPASS invalid username-password pair or user is disabled."
CHANGED = (
    "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is "
    "no longer allowed for the following reason: "
)
HASH = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"  # of "test"


def client_of(engine, rules):
    """Return a client that has logged in as ann, who has these rules and no password."""
    assert engine.do(f"ACL SETUSER ann on nopass {rules}") == "OK"
    client = engine.connect()
    assert client.do("AUTH ann any") == "OK"
    return client


def refused(client, line):
    """Return the text of the error that a request is answered with; None if it is none."""
    reply = client.do(line)
    return reply.text if isinstance(reply, Error) else None


def user_line(engine, name="ann"):
    return next(line.decode() for line in engine.do("ACL LIST") if line.startswith(b"user %b " % name.encode()))


# -- logging in -------------------------------------------------------------------------------------------------------


def test_a_new_user_is_off_and_may_do_nothing(engine):
    engine.do("ACL SETUSER ann >secret")

    assert refused(engine.connect(), "AUTH ann secret") == WRONG
    assert user_line(engine).startswith("user ann off sanitize-payload #")
    assert user_line(engine).endswith(" resetchannels -@all")


def test_any_of_a_users_passwords_is_right_until_it_is_taken_away(engine):
    engine.do("ACL SETUSER ann on >one >two")
    client = engine.connect()

    assert client.do("AUTH ann one") == client.do("AUTH ann two") == "OK"
    engine.do("ACL SETUSER ann <one")
    assert refused(client, "AUTH ann one") == WRONG
    assert client.do("AUTH ann two") == "OK"


def test_a_hash_is_a_password_too(engine):
    engine.do(f"ACL SETUSER ann on #{HASH}")

    assert engine.connect().do("AUTH ann test") == "OK"
    engine.do(f"ACL SETUSER ann !{HASH}")
    assert refused(engine.connect(), "AUTH ann test") == WRONG


def test_who_fails_to_log_in_stays_who_it_was(engine):
    client = client_of(engine, "+@all")
    engine.do("ACL SETUSER bob on >secret")

    assert refused(client, "AUTH bob wrong") == WRONG
    assert client.do("ACL WHOAMI") == b"ann"


def test_hello_logs_in_as_a_user(engine):
    engine.do("ACL SETUSER ann on >secret +@all")
    client = engine.connect()

    assert client.do("HELLO 2 AUTH ann wrong").text == WRONG
    client.do("HELLO 2 AUTH ann secret")

    assert client.do("ACL WHOAMI") == b"ann"


def test_requirepass_is_the_password_of_default(clock):
    session = Session(clock, Config(requirepass="first"))

    assert refused(session, "PING") == "NOAUTH Authentication required."
    assert session.do("AUTH default first") == "OK"
    session.do("CONFIG SET requirepass second")
    assert session.do("PING") == "PONG"  # who is in stays in
    assert refused(session.connect(), "AUTH first") == WRONG
    assert session.connect().do("AUTH second") == "OK"
    late = session.connect()
    session.execute(["CONFIG", "SET", "requirepass", ""])
    assert late.do("PING") == "PONG"
    assert user_line(session, "default") == "user default on nopass sanitize-payload ~* &* +@all"


def test_clients_that_come_are_nobody_while_default_is_off(engine):
    engine.do("ACL SETUSER ann on nopass +@all")
    engine.do("ACL SETUSER default off")
    client = engine.connect()

    assert refused(client, "PING") == "NOAUTH Authentication required."
    assert client.do("AUTH ann x") == "OK"
    assert client.do("PING") == "PONG"


def test_reset_makes_a_client_default_again(engine):
    client = client_of(engine, "+reset +acl")

    client.do("RESET")

    assert client.do("ACL WHOAMI") == b"default"


# -- rules ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ("+nothing", "Unknown command or category name in ACL"),
        ("-@nothing", "Unknown command or category name in ACL"),
        ("+config|nothing", "Unknown command or category name in ACL"),
        ("+config|get|port", "Allowing first-arg of a subcommand is not supported"),
        ("+select|", "Syntax error"),
        ("nonsense", "Syntax error"),
        ("%X~a", "Syntax error"),
        ("%~a", "Syntax error"),
        ("#12", "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"),
        ("<never", "The password you are trying to remove from the user does not exist"),
    ],
)
def test_a_wrong_rule_is_refused_and_those_beside_it_are_not_taken(engine, rule, error):
    engine.do("ACL SETUSER ann on")

    assert refused(engine, f"ACL SETUSER ann +get {rule} off") == f"ERR Error in ACL SETUSER modifier '{rule}': {error}"
    assert user_line(engine) == "user ann on sanitize-payload resetchannels -@all"


def test_a_pattern_behind_all_patterns_is_refused(engine):
    keys = refused(engine, "ACL SETUSER ann ~* ~a")
    channels = refused(engine, "ACL SETUSER ann allchannels &a")

    assert keys.endswith("Try 'resetkeys' to start with an empty list of patterns")
    assert channels.endswith("Try 'resetchannels' to start with an empty list of channels")


def test_a_selector_may_be_several_words_and_must_be_closed(engine):
    engine.execute(["ACL", "SETUSER", "ann", "(~a", "+get)", "(+set ~b)"])

    selectors = "(~a resetchannels -@all +get) (~b resetchannels -@all +set)"
    assert user_line(engine) == f"user ann off sanitize-payload resetchannels -@all {selectors}"
    assert refused(engine, "ACL SETUSER ann (+get") == "ERR Unmatched parenthesis in acl selector starting at '(+get'."


def test_names_hold_no_blanks_and_default_cannot_be_removed(engine):
    spaces = engine.execute(["ACL", "SETUSER", "a b"])

    assert spaces == Error("ERR Usernames can't contain spaces or null characters")
    assert refused(engine, "ACL DELUSER x default") == "ERR The 'default' user cannot be removed"


def test_rules_may_name_commands_of_redis_that_are_not_here(engine):
    engine.do("ACL SETUSER ann on nopass +@all -migrate -himport|set")

    assert user_line(engine) == "user ann on nopass sanitize-payload resetchannels +@all -migrate -himport|set"


def test_words_for_what_is_not_here_are_kept_and_named_once(filed, caplog):
    line = "user ann on nopass sanitize-payload ~* resetchannels -@all +@array +get +vadd +himport|set +fcall_not|x"
    rules = line.removesuffix(" +fcall_not|x")
    filed.path.write_text(f"{rules}\nuser bob -vadd\n")

    assert filed.do("ACL LOAD") == "OK"

    assert user_line(filed) == rules
    named = [record.getMessage() for record in caplog.records if "allow and forbid nothing" in record.getMessage()]
    assert [text.rpartition(": ")[2] for text in named] == ["@array himport|set vadd"]
    filed.path.write_text(f"{line}\n")
    assert "Unknown command or category name in ACL" in filed.do("ACL LOAD").text


# -- what is allowed --------------------------------------------------------------------------------------------------


def test_a_subcommand_is_allowed_or_forbidden_alone(engine):
    client = client_of(engine, "+@all -config|set -client +client|id")

    assert refused(client, "CONFIG SET hz 10") == COMMAND.format("config|set")
    assert refused(client, "CONFIG GET hz") is None
    assert refused(client, "CLIENT GETNAME") == COMMAND.format("client|getname")
    assert refused(client, "CLIENT ID") is None


def test_a_command_may_be_allowed_with_one_first_word(engine):
    client = client_of(engine, "-@all +select|0")

    assert client.do("SELECT 0") == "OK"
    assert refused(client, "SELECT 1") == COMMAND.format("select")
    assert user_line(engine).endswith("-@all +select|0")


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("GET r1", None),
        ("GET w1", KEY),
        ("SET w1 v", None),
        ("SET w1 v GET", KEY),
        ("SET r1 v", KEY),
        ("INCR b1", None),
        ("INCR w1", KEY),
        ("COPY r1 w1", None),
        ("COPY w1 r1", KEY),
        ("EXISTS w1", None),  # says nothing of what is in it
        ("MGET r1 b1", None),
        ("MGET r1 w1", KEY),
        ("SORT r1 STORE w1", None),
        ("SORT r1 STORE r1", KEY),
        ("XREAD STREAMS r1 0", None),
        ("XREAD STREAMS r1 w1 0 0", KEY),
        ("SORT r1 BY x*", "ERR BY option of SORT denied due to insufficient ACL permissions."),
        ("SORT r1 GET x*", "ERR GET option of SORT denied due to insufficient ACL permissions."),
    ],
)
def test_keys_may_be_allowed_for_reading_or_writing_alone(engine, line, error):
    client = client_of(engine, "+@all %R~r* %W~w* ~b*")

    assert refused(client, line) == error


def test_a_selector_must_allow_the_whole_request(engine):
    client = client_of(engine, "+get ~a* (+mget ~b*)")

    assert refused(client, "GET a") is None
    assert refused(client, "GET b") == KEY
    assert refused(client, "MGET b") is None
    assert refused(client, "MGET a b") == KEY
    assert refused(client, "DEL a") == COMMAND.format("del")


def test_the_name_of_a_group_does_not_hide_the_keys(engine):
    client = client_of(engine, "+@all ~ok ~STREAMS")

    assert refused(client, "XREADGROUP GROUP STREAMS ok STREAMS secret >") == KEY
    assert refused(client, "SORT ok STORE secret GET STORE LIMIT 0 1") == KEY


def test_channels_are_allowed_by_patterns_and_patterns_only_as_they_stand(engine):
    client = client_of(engine, "+@all &news.*")

    assert client.do("PUBLISH news.a x") == 0
    assert refused(client, "PUBLISH other x") == CHANNEL
    assert refused(client, "SUBSCRIBE news.a other") == CHANNEL
    assert refused(client, "PSUBSCRIBE news.a*") == CHANNEL
    client.say("PSUBSCRIBE news.*")
    assert client.received().startswith(b"*3\r\n$10\r\npsubscribe")


def test_new_users_may_name_all_channels_where_the_configuration_says_so(engine):
    engine.do("CONFIG SET acl-pubsub-default allchannels")

    assert refused(client_of(engine, "+publish"), "PUBLISH any x") is None


def test_a_script_may_do_what_its_caller_may(engine):
    pytest.importorskip("lupa")
    client = client_of(engine, "+eval +get ~a")

    def run(script):
        return client.execute(["EVAL", script, 0])

    assert run("return redis.call('GET', 'a')") is None
    failure = "ERR ACL failure in script: User ann has no permissions to run the 'set' command"
    assert failure in run("redis.call('SET', 'a', '1')").text
    assert "ERR ACL failure in script: No permissions to access a key" in run("redis.call('GET', 'b')").text
    assert run("return redis.acl_check_cmd('GET', 'a')") == 1
    assert run("return redis.acl_check_cmd('GET', 'b')") is None
    assert run("return redis.acl_check_cmd('SET', 'a', '1')") is None


# -- when rules change ------------------------------------------------------------------------------------------------


def test_a_transaction_is_refused_when_it_is_queued_and_when_it_is_executed(engine):
    client = client_of(engine, "+@all ~a ~b &c")

    client.do("MULTI")
    assert refused(client, "GET z") == KEY
    assert refused(client, "EXEC") == "EXECABORT Transaction discarded because of previous errors."
    client.do("MULTI")
    for line in ("GET a", "GET b", "SET a 1", "PUBLISH c x"):
        assert client.do(line) == "QUEUED"
    engine.do("ACL SETUSER ann -set resetkeys ~a resetchannels")
    assert client.do("EXEC") == [
        None,
        Error(f"{CHANGED}no permission to touch the specified keys"),
        Error(f"{CHANGED}no permission to execute the command or subcommand"),
        Error(f"{CHANGED}no permission to access one of the channels used as arguments"),
    ]


def test_a_client_that_waits_is_refused_when_something_comes(engine):
    client = client_of(engine, "+xread ~s")
    client.say("XREAD BLOCK 0 STREAMS s $")

    engine.do("ACL SETUSER ann resetkeys")
    assert client.blocked
    engine.do("XADD s * f v")

    assert client.replies() == [Error(KEY)]
    assert not client.blocked


def test_rules_hold_for_the_next_request_of_the_same_pipeline(engine):
    client = client_of(engine, "+@all ~*")

    client.send(["GET", "a"], ["ACL", "SETUSER", "ann", "-get"], ["GET", "a"])

    assert client.replies() == [None, "OK", Error(COMMAND.format("get"))]


@pytest.mark.parametrize(("now", "is_closed"), [("&a &b.*", False), ("allchannels", False), ("&a", True), ("", True)])
def test_subscribers_are_closed_that_may_not_listen_any_more(engine, now, is_closed):
    client = client_of(engine, "+@all &a &b.* &c")
    client.say("SUBSCRIBE a")
    client.say("PSUBSCRIBE b.*")

    engine.do(f"ACL SETUSER ann resetchannels {now}")

    assert client.client.closed == is_closed


def test_clients_of_a_removed_user_are_closed_but_for_the_reply_to_who_removed_itself(engine):
    client = client_of(engine, "+@all allchannels ~*")
    waiting = engine.connect()
    waiting.do("AUTH ann x")
    waiting.say("BLPOP k 0")

    client.send(["ACL", "DELUSER", "ann", "nobody"], ["GET", "a"])

    assert client.replies() == [1]
    assert client.client.close_soon
    assert waiting.client.closed


def test_default_can_be_restricted_for_those_who_are_already_there(engine):
    client = engine.connect()

    engine.do("ACL SETUSER default -flushall resetkeys ~a")

    assert refused(client, "FLUSHALL") == COMMAND.format("flushall").replace("ann", "default")
    assert refused(client, "GET b") == KEY
    assert refused(engine.connect(), "GET b") == KEY


def test_default_without_rules_has_the_table_of_all(engine):
    ordinary = engine.connect().client
    assert ordinary.guard is None
    assert ordinary.quick is engine.engine.quick

    engine.do("ACL SETUSER default -flushall")
    assert ordinary.guard is not None
    engine.do("ACL SETUSER default +flushall")
    assert ordinary.guard is None
    assert ordinary.quick is engine.engine.quick


def test_the_tables_of_restricted_users_are_empty_while_all_is_looked_at(engine):
    session = client_of(engine, "+@all -flushall ~*")
    session.do("PING")  # what comes first has the rules prepared
    client = session.client
    assert client.quick
    monitor = engine.connect()

    monitor.say("MONITOR")
    assert not client.quick
    monitor.disconnect()
    assert client.quick


# -- what ACL shows ---------------------------------------------------------------------------------------------------


def test_getuser_shows_everything_of_a_user(engine):
    engine.execute(["ACL", "SETUSER", "ann", "on", ">test", "%R~a", "~b", "&c", "+get", "(+set %W~d)"])

    engine.do("HELLO 3")
    assert engine.do("ACL GETUSER ann") == {
        b"flags": [b"on", b"sanitize-payload"],
        b"passwords": [HASH.encode()],
        b"commands": b"-@all +get",
        b"keys": b"%R~a ~b",
        b"channels": b"&c",
        b"selectors": [{b"commands": b"-@all +set", b"keys": b"%W~d", b"channels": b""}],
    }
    assert engine.do("ACL GETUSER nobody") is None
    assert engine.do("ACL USERS") == [b"ann", b"default"]


def test_commands_are_shown_by_the_rules_that_were_given(engine):
    engine.do("ACL SETUSER ann +@all -@dangerous +keys")
    engine.do("ACL SETUSER bob +@stream +get +CONFIG|set -get +config|get -config +@string -@stream")

    assert user_line(engine) == "user ann off sanitize-payload resetchannels +@all -@dangerous +keys"
    rules = "resetchannels -@all -get -config +@string -@stream"
    assert user_line(engine, "bob") == f"user bob off sanitize-payload {rules}"


def test_cat_lists_categories_and_their_commands(engine):
    assert len(engine.do("ACL CAT")) == 22
    assert b"xadd" in engine.do("ACL CAT stream")
    assert b"config|set" in engine.do("ACL CAT dangerous")
    assert refused(engine, "ACL CAT none") == "ERR Unknown category 'none'"


def test_genpass_makes_so_many_bits(engine):
    assert len(engine.do("ACL GENPASS")) == 64
    assert len(engine.do("ACL GENPASS 5")) == 2
    assert engine.do("ACL GENPASS") != engine.do("ACL GENPASS")
    assert refused(engine, "ACL GENPASS 4097").startswith("ERR ACL GENPASS argument must be the number of bits")


def test_dryrun_says_why_not(engine):
    engine.do("ACL SETUSER ann +get +publish ~a &c")

    assert engine.do("ACL DRYRUN ann GET a") == "OK"
    assert engine.do("ACL DRYRUN ann GET b") == b"User ann has no permissions to access the 'b' key"
    assert engine.do("ACL DRYRUN ann SET a 1") == b"User ann has no permissions to run the 'set' command"
    assert engine.do("ACL DRYRUN ann PUBLISH d x") == b"User ann has no permissions to access the 'd' channel"
    assert refused(engine, "ACL DRYRUN bob GET a") == "ERR User 'bob' not found"
    assert refused(engine, "ACL DRYRUN ann NONE a") == "ERR Command 'NONE' not found"
    assert refused(engine, "ACL DRYRUN ann GET") == "ERR wrong number of arguments for 'get' command"


def test_the_log_counts_what_is_refused_again_within_a_minute(engine, clock):
    client = client_of(engine, "+get +multi +eval ~a")
    engine.do("HELLO 3")
    client.do("GET b")
    client.do("GET b")
    client.do("MULTI")
    client.do("SET a 1")
    client.do("AUTH ann x")
    engine.connect().do("AUTH bob secret")
    clock.advance(60_001)
    client.do("GET b")

    entries = engine.do("ACL LOG")

    shown = [(e[b"count"], e[b"reason"], e[b"context"], e[b"object"], e[b"username"]) for e in entries]
    assert shown == [
        (1, b"key", b"multi", b"b", b"ann"),
        (1, b"auth", b"toplevel", b"AUTH", b"bob"),
        (1, b"command", b"multi", b"set", b"ann"),
        (2, b"key", b"toplevel", b"b", b"ann"),
    ]
    assert entries[3][b"age-seconds"] == 60.001
    assert b" user=ann " in entries[3][b"client-info"]
    assert len(engine.do("ACL LOG 2")) == 2
    assert engine.do("ACL LOG RESET") == "OK"
    assert engine.do("ACL LOG") == []


def test_the_log_is_no_longer_than_the_configuration_says(engine):
    engine.do("CONFIG SET acllog-max-len 3")
    client = client_of(engine, "+get")

    for number in range(10):
        client.do(f"GET {number}")

    assert [entry[7] for entry in engine.do("ACL LOG 10")] == [b"9", b"8", b"7"]


def test_client_list_shows_users_and_client_kill_finds_them(engine):
    client = client_of(engine, "+@all")

    assert b" user=ann " in client.do("CLIENT INFO")
    assert engine.do("CLIENT KILL USER ann") == 1
    assert client.client.closed
    assert refused(engine, "CLIENT KILL USER nobody") == "ERR No such user 'nobody'"


# -- the file ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def filed(clock, tmp_path):
    """A session whose users are in a file; `lines` writes it."""
    path = tmp_path / "users.acl"
    path.write_text("user default on nopass sanitize-payload ~* &* +@all\nuser ann on nopass +@all ~*\n")
    session = Session(clock, Config(aclfile=str(path)))
    session.path = path
    return session


def test_users_are_saved_and_loaded(filed):
    filed.do("ACL SETUSER bob on >test +get")
    assert filed.do("ACL SAVE") == "OK"
    saved = filed.path.read_text()
    filed.do("ACL DELUSER bob")

    assert filed.do("ACL LOAD") == "OK"

    assert user_line(filed, "bob") == f"user bob on sanitize-payload #{HASH} resetchannels -@all +get"
    assert saved.encode() == b"".join(line + b"\n" for line in filed.do("ACL LIST"))


def test_load_closes_the_clients_of_those_who_are_gone_and_the_others_follow(filed):
    ann, bob = filed.connect(), filed.connect()
    filed.do("ACL SETUSER bob on nopass +@all ~*")
    ann.do("AUTH ann x")
    bob.do("AUTH bob x")
    filed.path.write_text("user ann on nopass +ping\n")

    assert filed.do("ACL LOAD") == "OK"

    assert bob.client.closed
    assert refused(ann, "GET a") == COMMAND.format("get")
    assert user_line(filed, "default") == "user default on nopass sanitize-payload ~* &* +@all"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("usr x", "{}:2 should start with user keyword followed by the username."),
        ("user ann on", "WARNING: Duplicate user 'ann' found on line 2."),
        ("user x +none", "{}:2: Error in applying operation '+none': Unknown command or category name in ACL."),
        ("user x #secret", "{}:2: The password hash must be exactly 64 characters and contain only lowercase"),
        ("user x (+get", "{}:2: Unmatched parenthesis in selector definition."),
    ],
)
def test_a_file_that_is_wrong_anywhere_changes_nothing(filed, line, error):
    before = filed.do("ACL LIST")
    filed.path.write_text(f"user ann off\n{line}\n")

    text = refused(filed, "ACL LOAD")

    assert error.format(filed.path) in text
    assert text.endswith("WARNING: ACL errors detected, no change to the previously active ACL rules was performed")
    assert "secret" not in text
    assert filed.do("ACL LIST") == before


def test_load_and_save_need_a_file(engine, filed):
    assert refused(engine, "ACL SAVE").startswith("ERR This Redis instance is not configured to use an ACL file.")
    filed.path.unlink()
    missing = f"ERR Error loading ACLs, opening file '{filed.path}': No such file or directory"
    assert refused(filed, "ACL LOAD") == missing
    assert filed.do("ACL SAVE") == "OK"
    assert filed.path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_written_is_as_it_was(filed, monkeypatch):
    before = filed.path.read_text()

    def fail(*paths):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    assert refused(filed, "ACL SAVE").startswith("ERR There was an error trying to save the ACLs.")
    assert filed.path.read_text() == before
    assert [file.name for file in filed.path.parent.iterdir()] == ["users.acl"]


def test_users_of_the_configuration_are_there_from_the_start(clock):
    config = Config()
    config.users = [[b"ann", b"on", b">test", b"+get", b"(~a", b"+set)"], [b"default", b"on", b"nopass", b"+@all"]]

    session = Session(clock, config)

    assert user_line(session).endswith("resetchannels -@all +get (~a resetchannels -@all +set)")
    assert user_line(session, "default") == "user default on nopass sanitize-payload resetchannels +@all"
