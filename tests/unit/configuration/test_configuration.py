"""The configuration from outside: the file, the environment, flags, and what CONFIG REWRITE leaves of the file."""

import json
import logging
import re
from pathlib import Path

import pytest

from streamd.base.errors import CommandError
from streamd.base.log import JsonFormatter, TextFormatter, log
from streamd.configuration.file import read_file
from streamd.configuration.foreign import FOREIGN
from streamd.configuration.layers import apply_layers
from streamd.configuration.option import ConfigError
from streamd.configuration.rewriting import GENERATED, quoted, rewrite_file, rewritten
from streamd.configuration.server_options import ALIASES, OPTIONS, Config
from tests.integration.process import run_cli
from tests.session import Error, Session

REDIS_CONF = Path("/etc/redis/redis.conf")


def file(tmp_path: Path, text: str) -> str:
    path = tmp_path / "redis.conf"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    return str(path)


def fault(tmp_path: Path, text: str) -> str:
    path = file(tmp_path, text)
    faults = read_file(path).faults
    assert len(faults) == 1
    line = str(faults[0])
    assert "\n" not in line
    return line.replace(path, "FILE")


# -- the file ---------------------------------------------------------------------------------------------------------


def test_a_file_is_read_as_redis_reads_it(tmp_path):
    found = read_file(
        file(
            tmp_path,
            '# a comment\n\n  PORT 7000 \r\nbind 127.0.0.1 -::1\nrequirepass "a b\\x21"\nmaxmemory 2gb\n'
            "notify-keyspace-events \"\"\nlua-time-limit 7\nappendfilename 'x.aof'\nport 7001\n",
        )
    )
    assert found.faults == []
    assert found.values == {
        "port": 7001,
        "bind": "127.0.0.1 -::1",
        "requirepass": "a b!",
        "maxmemory": 2 * 1024**3,
        "notify-keyspace-events": "",
        "busy-reply-threshold": 7,
        "appendfilename": "x.aof",
    }


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("\nprot 1\n", "FILE, line 2: there is no option 'prot'; did you mean 'port'?"),
        ("appendfync no", "FILE, line 1: there is no option 'appendfync'; did you mean 'appendfsync'?"),
        ("zzzzzzzz 1", "FILE, line 1: there is no option 'zzzzzzzz'; `streamd serve --help` and docs/operations.md"),
        ("port many", "FILE, line 1: port many: give a number, 0 to 65535"),
        ("port 65536", "FILE, line 1: port 65536: give a number, 0 to 65535"),
        ("port", "FILE, line 1: port has no value; give a number, 0 to 65535"),
        ("logfile a b", "FILE, line 1: logfile has more than one value; give text, in quotes if it holds blanks"),
        ("port 1 2", "FILE, line 1: port has more than one value; give a number, 0 to 65535"),
        ("appendonly 1", "FILE, line 1: appendonly 1: give yes or no"),
        ("maxmemory 5x", "FILE, line 1: maxmemory 5x: give a number of bytes (1kb, 1mb, 1gb), 0 or more"),
        ("maxmemory-policy allkeys-lru", "FILE, line 1: maxmemory-policy allkeys-lru: give noeviction"),
        ('unixsocketperm ""', 'FILE, line 1: unixsocketperm "": give an octal number, 0 to 777'),
        ("tls-protocols TLSv1.1", "FILE, line 1: tls-protocols TLSv1.1: give TLSv1.2, TLSv1.3, or both in quotes"),
        ("appendfilename a/b", "FILE, line 1: appendfilename a/b: give a name without slashes"),
        ('dir "/tmp', "FILE, line 1: unbalanced quotes; close the quote or escape it"),
        ("replicaof", "FILE, line 1: replicaof has no value; give text, in quotes if it holds blanks"),
        ("cluster-enabled yes", "FILE, line 1: cluster-enabled cannot be passed over: there is no cluster"),
        ('rename-command FLUSHALL ""', "FILE, line 1: rename-command cannot be passed over: commands cannot be"),
        ("include nowhere.conf", "FILE, line 1: there is no file "),
        ("include a b", "FILE, line 1: include takes one file or pattern; write a line for each"),
        ('"por\\nt\\x1b" 1', "FILE, line 1: there is no option 'por\\nt\\x1b'; did you mean 'port'?"),
        ("include redis.conf", "FILE, line 1: files include each other without an end; take this line out"),
    ],
)
def test_a_fault_is_one_line_with_file_line_what_and_what_to_do(tmp_path, text, line):
    assert fault(tmp_path, text).startswith(line)


def test_a_password_that_is_written_wrongly_is_not_shown(tmp_path):
    assert "hunter2" not in fault(tmp_path, "requirepass hunter2 hunter2")


@pytest.mark.parametrize("name", ["missing.conf", ""])
def test_a_file_that_cannot_be_read_is_one_line(tmp_path, name):
    faults = read_file(str(tmp_path / name)).faults
    assert [str(one).endswith("; give a file that can be read") for one in faults] == [True]


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "x").write_bytes(b"\0\1")
    assert "no configuration file" in str(read_file(str(tmp_path / "x")).faults[0])


def test_included_files_are_read_where_they_are_named(tmp_path):
    (tmp_path / "a.inc").write_text("port 2\nhz 20\n")
    (tmp_path / "b.inc").write_text("maxclients 7\n")
    found = read_file(file(tmp_path, "port 1\ninclude *.inc\nhz 30\ninclude *.none\n"))
    assert (found.values, found.faults) == ({"port": 2, "hz": 30, "maxclients": 7}, [])


def test_what_does_not_apply_is_said_once_for_each_reason(tmp_path):
    found = read_file(file(tmp_path, "daemonize yes\npidfile /x\nsave 3600 1\nsave 60 9\nsave ''\ndaemonize no\n"))
    assert found.faults == []
    assert found.notes() == [
        "save 3600 1, save 60 9: data is saved by the journal alone: appendonly yes",
        "daemonize, pidfile: it runs in the foreground; systemd or the shell watches over it",
    ]


@pytest.mark.skipif(not REDIS_CONF.exists(), reason="needs Debian's redis-server")
def test_a_stock_redis_conf_has_no_fault():
    found = read_file(str(REDIS_CONF))
    assert found.faults == []
    assert found.values["appendfsync"] == "everysec"
    assert found.values["dir"] == "/var/lib/redis"
    assert {"daemonize", "pidfile"} <= found.passed_over.keys()


def test_what_streamd_has_is_not_passed_over():
    assert {*OPTIONS, *ALIASES}.isdisjoint(FOREIGN)


# -- the layers -------------------------------------------------------------------------------------------------------


def test_flags_win_over_variables_and_these_over_the_file(tmp_path):
    config = Config()
    config.values.update(read_file(file(tmp_path, "port 1\nhz 11\nmaxclients 21\n")).values)
    notes = apply_layers(config, {"port": "3"}, {"STREAMD_PORT": "2", "STREAMD_HZ": "12", "PATH": "x"})
    assert notes == []
    assert (config["port"], config["hz"], config["maxclients"], config["timeout"]) == (3, 12, 21, 0)


@pytest.mark.parametrize(
    ("variable", "text", "note"),
    [
        ("STREAMD_URL", "redis://h", None),
        ("STREAMD_SESSIONS_LIMIT", "500", None),
        ("STREAMD_PORT", "tcp://10.0.0.1:6379", None),
        ("STREAMD_PORT_6379_TCP_ADDR", "10.0.0.1", None),
        ("STREAMD_SERVICE_HOST", "10.0.0.1", None),
        ("STREAMD_PROT", "1", "the variable STREAMD_PROT is no option and passed over; did you mean 'port'?"),
    ],
)
def test_variables_that_are_no_options_are_passed_over(variable, text, note):
    config = Config()
    assert apply_layers(config, {}, {variable: text}) == ([] if note is None else [note])
    assert config.values == Config().values


@pytest.mark.parametrize(
    ("flags", "environment", "line"),
    [
        ({"port": "many"}, {}, "--port many: give a number, 0 to 65535"),
        ({}, {"STREAMD_APPENDFSYNC": "now"}, "STREAMD_APPENDFSYNC=now: give always, everysec or no"),
        ({"notify-keyspace-events": "?"}, {}, "--notify-keyspace-events ?: give letters of Ag$lshzxeKEtmdnocaSTIV"),
    ],
)
def test_a_wrong_flag_or_variable_is_named(flags, environment, line):
    with pytest.raises(ConfigError, match="^" + re.escape(line)):
        apply_layers(Config(), flags, environment)


@pytest.mark.parametrize(
    "option", [one for one in OPTIONS.values() if one.kind not in ("text", "path")], ids=lambda one: one.name
)
@pytest.mark.parametrize("value", ["0/9", "-9999999999999999999"])
def test_what_is_wrong_with_a_value_is_said_once(option, value):
    """In one line, whatever the option is: its name, the value, and what it takes."""
    if option.kind == "name" and value[0] == "-":
        pytest.skip("it is a name")
    with pytest.raises(ConfigError) as raised:
        apply_layers(Config(), {option.name: value}, {})
    line = str(raised.value)
    assert line.startswith(f"--{option.name} {value}: give ")
    assert "\n" not in line
    order = re.findall(r"[^ ,]+", line.partition(": ")[2])
    assert [order.count(choice) for choice in option.choices] == [1] * len(option.choices)
    assert len(order) - len({*order}) <= 1  # "or", say


# -- CONFIG REWRITE ---------------------------------------------------------------------------------------------------

BEFORE = b"""# my server
port 7000

  # memory
maxmemory 1gb   \r
unknown-to-nobody "as it is"
hz 10
maxclients 5
maxclients 6
"""


def test_a_rewrite_changes_the_lines_of_what_was_set_and_nothing_else():
    config = Config(port=7000, maxclients=6)
    config.set_all([("maxmemory", "2gb"), ("maxclients", "9"), ("requirepass", 'a "b\\\n'), ("timeout", "0")])
    text = rewritten(BEFORE, config, config.changed)
    assert (
        text
        == BEFORE.replace(b"maxmemory 1gb   ", b"maxmemory 2147483648").replace(b"maxclients 6", b"maxclients 9")
        + b"\n"
        + GENERATED
        + b'\nrequirepass "a \\"b\\\\\\x0a"\n'
    )
    assert rewritten(text, config, config.changed) == text


@pytest.mark.parametrize(
    "value", ["", "plain", "a b", "q\"u'o", "\\", "\t\r\n", "\N{EURO SIGN}", "\udcff", "#x", "a#b"]
)
def test_a_value_that_was_written_is_read_as_it_was(tmp_path, value):
    config = Config(requirepass=value)
    path = tmp_path / "redis.conf"
    path.write_bytes(rewritten(b"requirepass before\n", config, ["requirepass"]))
    assert read_file(str(path)).values == {"requirepass": value}


def test_no_byte_of_a_value_ends_its_line_or_the_file():
    assert quoted("a\0b\nc") == b'"a\\x00b\\x0ac"'


def test_a_default_that_was_set_again_is_written_where_an_included_file_may_say_otherwise():
    config = Config()
    config.set_all([("hz", "10")])
    assert rewritten(b"hz 30\ninclude x\n", config, config.changed).endswith(GENERATED + b"\nhz 10\n")
    assert rewritten(b"port 1\n", config, config.changed) == b"port 1\n"


def test_classes_of_events_that_config_get_leaves_out_are_written():
    config = Config()
    config.set_all([("notify-keyspace-events", "KocnA")])
    assert config.texts()["notify-keyspace-events"] == "AK"
    assert rewritten(b"notify-keyspace-events x\n", config, config.changed) == b"notify-keyspace-events AnocK\n"


def test_config_rewrite_writes_the_file_and_keeps_its_mode(tmp_path):
    path = tmp_path / "redis.conf"
    path.write_bytes(BEFORE)
    path.chmod(0o640)
    config = Config()
    config.on_rewrite = lambda users: rewrite_file(str(path), config, config.changed, users)
    session = Session(config=config)
    session.do("CONFIG SET maxmemory 3gb")
    assert session.do("CONFIG REWRITE") == "OK"
    assert b"maxmemory 3221225472\r\n" in path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o640
    assert [one.name for one in tmp_path.iterdir()] == ["redis.conf"]


def test_config_rewrite_without_a_file_or_with_one_that_is_gone_is_redis_error(tmp_path):
    session = Session()
    assert session.do("CONFIG REWRITE") == Error("ERR The server is running without a config file")
    with pytest.raises(CommandError, match=r"^ERR Rewriting config file: No such file or directory$"):
        rewrite_file(str(tmp_path / "gone.conf"), Config(), ["hz"])


# -- the command line -------------------------------------------------------------------------------------------------


def test_config_check_says_every_fault_and_what_is_passed_over(tmp_path):
    text = "prot 1\nport x\nhz 20\ndaemonize yes\nrequirepass secret\nmasterauth secret\n"
    done = run_cli("config", "check", file(tmp_path, text))
    assert done.returncode == 2
    assert "secret" not in done.stdout
    for words in ("hz 20", "daemonize: it runs", "did you mean 'port'?", "line 2: port x", "2 faults"):
        assert words in done.stdout
    good = run_cli("config", "check", file(tmp_path, "hz 20\n"))
    assert (good.returncode, good.stdout) == (0, "sets          hz 20\nA server starts with this file.\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("user ann on +@al", "users: Error loading ACL rule '+@al' for the user named 'ann'"),
        ("user ann on\nuser ann off", "users: Duplicate user found: the user named 'ann'"),
        ("aclfile gone.acl", "users: Error loading ACLs, opening file 'gone.acl'"),
        ("tls-port 6380", "tls-cert-file is missing: a tls-port needs tls-cert-file and tls-key-file"),
        ("replicaof 10.0.0.1", "replicaof '10.0.0.1': give host and port of the primary, as in 10.0.0.5 6379"),
        ("replicaof 10.0.0.1 65536", "replicaof '10.0.0.1 65536': give host and port of the primary"),
        (
            "slaveof a 1\nappendonly no",
            "replicaof needs a journal, of which replicas are made",
        ),
    ],
)
def test_config_check_and_a_start_refuse_the_same_users_certificates_and_primaries(tmp_path, text, said):
    path = file(tmp_path, f"port 0\n{text}\n")
    assert said in run_cli("serve", path, "--dir", str(tmp_path)).stderr
    checked = run_cli("config", "check", path)
    assert checked.returncode == 2
    assert f"wrong         {said}" in checked.stdout
    assert checked.stdout.endswith("A server does not start with this file: 1 fault.\n")


def test_a_server_does_not_start_with_a_wrong_file_and_says_so_in_one_line(tmp_path):
    done = run_cli("serve", file(tmp_path, "prot 1\nport x\n"), "--dir", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "line 1: there is no option 'prot'; did you mean 'port'? (1 more: streamd config check " in done.stderr


@pytest.mark.parametrize("option", ["--bind", "--admin-bind"])
def test_an_address_that_no_name_can_be_is_one_line(tmp_path, option):
    done = run_cli("serve", option, "a" * 70 + ".example", "--port", "0", "--admin-port", "1", "--dir", str(tmp_path))
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("streamd: cannot listen on aaaa")


def test_a_flag_that_is_not_known_gets_the_nearest_one(tmp_path):
    done = run_cli("serve", "--prot", "1", "--dir", str(tmp_path))
    assert (done.returncode, done.stderr) == (2, "streamd: --prot is not known; did you mean '--port'?\n")


# -- the log ----------------------------------------------------------------------------------------------------------


def logged(formatter, write):
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(formatter.format(record))
    logger = logging.getLogger("streamd")
    logger.addHandler(handler)
    try:
        write()
    finally:
        logger.removeHandler(handler)
    assert len(lines) == 1
    return lines[0]


def test_lines_of_the_log_have_a_name_as_text_and_as_json():
    def write():
        log.warning("journal-cut", "%s is %s", "it", "cut")

    assert logged(TextFormatter(), write).endswith(" WARNING journal-cut: it is cut")
    line = json.loads(logged(JsonFormatter(), write))
    assert (line["level"], line["event"], line["message"]) == ("warning", "journal-cut", "it is cut")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line["time"])


def test_a_bug_is_one_json_line_with_its_traceback():
    def write():
        try:
            raise ValueError("x\ny")
        except ValueError:
            log.exception("bug", "a bug in %s", "it")

    line = logged(JsonFormatter(), write)
    assert "\n" not in line
    assert "ValueError: x\ny" in json.loads(line)["traceback"]


def test_a_line_of_another_library_has_a_name_as_well():
    assert json.loads(logged(JsonFormatter(), lambda: logging.getLogger("streamd").warning("x")))["event"] == "library"
