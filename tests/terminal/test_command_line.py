"""How the commands for a terminal begin and end: in one line when something is wrong, and cleanly at Ctrl-C."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner

from streamd import cli
from streamd.clients.server_url import without_password
from streamd.clients.terminal.app import terminal
from streamd.testing import EmbeddedServer
from tests.integration.process import run_cli

STREAMD = [sys.executable, "-m", "streamd"]


@pytest.fixture
def guarded():
    """A server with a password."""
    with EmbeddedServer(requirepass="secret") as server:
        yield server.port


def environment(**more):
    clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    return {**clean, "TERM": "xterm-256color", **more}


@pytest.mark.parametrize("word", ["tail orders", "top", "bench"])
@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        (
            "redis://:geheim@127.0.0.1:1",
            3,
            "redis://127.0.0.1:1: connection refused; start a server with `streamd serve`",
        ),
        ("redis://127.0.0.1:{port}", 3, "a password is required; give it as redis://:password@host in --url"),
        ("redis://:wrong@127.0.0.1:{port}", 3, "wrong user or password; give the right one"),
        ("http://127.0.0.1", 2, "--url http://127.0.0.1: Redis URL must specify one of"),
        ("redis://127.0.0.1:{port}/orders", 2, "database 'orders' is no number; give one behind the slash"),
        ("rediss://127.0.0.1:{port}", 3, "that port does not speak TLS; give its TLS port, or redis:// in place of"),
    ],
)
def test_a_server_that_does_not_let_one_in_is_said_in_one_line(guarded, capsys, word, url, code, said):
    assert cli.main([*word.split(), "--url", url.format(port=guarded)]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.startswith("streamd: ")
    assert err.count("\n") == 1
    assert "geheim" not in err


def test_a_password_where_there_is_none_is_said(capsys):
    with EmbeddedServer() as server:
        assert cli.main(["top", "--url", f"redis://:secret@127.0.0.1:{server.port}"]) == 3
    assert "the server has no password; leave it out of --url" in capsys.readouterr().err


def test_the_right_password_lets_one_in(guarded, monkeypatch):
    monkeypatch.setenv("STREAMD_URL", f"redis://:secret@127.0.0.1:{guarded}")
    assert CliRunner().invoke(terminal, ["top", "--count", "1", "--interval", "0.1"]).exit_code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tail", "ordres"], "no stream ordres; did you mean orders?"),
        (["tail", "nothing"], "no stream nothing; `streamd top` shows those there are, XADD makes one"),
        (["tail", "text"], "text is a string, no stream"),
        (["tail", "orders", "--group", "biling"], "stream orders has no group biling; did you mean billing?"),
        (["tail", "orders", "--group=x"], "stream orders has no group x; those there are: billing"),
        (["tail", "orders", "--from", "yesterday"], "--from yesterday: give 30s, 5m, 2h or 1d, an entry ID, earliest"),
        (["tail", "yesterday", "--from", "yesterday"], "--from yesterday: give"),
        (["tial", "orders"], "no command tial; did you mean tail? (see streamd --help)"),
        (["xyzzy"], "no command xyzzy; there are serve, check, backup"),
        (["tail"], "missing argument 'STREAM' (see streamd tail --help)"),
        (["tail", "orders", "--jsn"], "no such option '--jsn'"),
        (["tail", "orders", "--count", "0"], "0 is not in the range"),
        (["top", "--interval", "0"], "(see streamd top --help)"),
        (["top", "--interval", "nan"], "'nan' is not a number (see streamd top --help)"),
        (["bench", "--seconds", "nan"], "'nan' is not a number (see streamd bench --help)"),
        (["bench", "--only", "nonsense"], "no row is called so"),
    ],
)
def test_what_is_wrong_with_the_words_is_said_in_one_line(client, url, capsys, words, said):
    client.xadd("orders", {"f": "v"})
    client.xgroup_create("orders", "billing", "0")
    client.set("text", "x")
    assert cli.main([*words, "--url", url]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", [["tail", "orders"], ["top", "--interval", "0.1"], ["bench", "--seconds", "30"]])
def test_ctrl_c_is_a_clean_end(client, url, words):
    client.xadd("orders", {"f": "v"})
    process = subprocess.Popen(
        [*STREAMD, *words, "--url", url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    assert process.stdout is not None
    process.stdout.readline()
    if words[0] == "bench":
        while not client.keys("streamd-bench:*"):
            pass
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert client.keys() == ["orders"]


def test_bench_ends_the_servers_that_it_has_started_when_it_is_ended():
    process = subprocess.Popen(
        [*STREAMD, "bench", "--seconds", "30"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    assert process.stdout is not None
    process.stdout.readline()
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True)
    children = listed.stdout.split()
    process.terminate()
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, b"")
    assert children
    assert [pid for pid in children if os.path.exists(f"/proc/{pid}")] == []


def test_a_reader_that_goes_away_is_no_error(client, url):
    for number in range(5_000):
        client.xadd("orders", {"f": "v" * 50}, id=f"{number + 1}-1")
    words = [*STREAMD, "tail", "orders", "--from", "earliest", "--url", url]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait(20) == 0


def on_a_terminal(*words, **variables):
    """Return what a command writes to a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([*STREAMD, *words], stdout=theirs, stderr=theirs, env=environment(**variables))
    os.close(theirs)
    said = b""
    try:
        while data := os.read(ours, 1 << 16):
            said += data
    except OSError:
        pass  # the other end is closed
    os.close(ours)
    assert process.wait(20) == 0
    return said


def test_colours_are_for_terminals_and_not_where_no_color_is_set(url, client):
    client.xadd("orders", {"f": "v"}, id="1-1")
    words = ("tail", "orders", "--no-follow", "--url", url)
    plain = subprocess.run([*STREAMD, *words], capture_output=True, env=environment()).stdout
    assert b"\x1b" not in plain
    assert b"\x1b[" in on_a_terminal(*words)
    assert on_a_terminal(*words, NO_COLOR="1").replace(b"\r\n", b"\n") == plain


def test_top_draws_over_the_terminal_and_gives_it_back(url, client):
    client.xadd("orders", {"f": "v"})
    said = on_a_terminal(
        "top", "--count", "2", "--interval", "0.1", "--url", url, NO_COLOR="1", LINES="30", COLUMNS="90"
    )
    assert said.count(b"Streams: 1") >= 2
    assert b"\x1b[?1049h" in said
    assert b"\x1b[?1049l" in said.partition(b"\x1b[?1049h")[2]


def complete(words, **variables):
    """Return what bash would offer behind these words."""
    variables |= {"COMP_WORDS": f"streamd {words}", "COMP_CWORD": str(words.count(" ") + 1)}
    done = subprocess.run(
        STREAMD, capture_output=True, text=True, env=environment(_STREAMD_COMPLETE="bash_complete", **variables)
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("t", ["tail", "top", "topics"]),
        ("tail orders --no", ["--no-follow"]),
        ("serve --appendfsync ", ["always", "everysec", "no"]),
        ("top --sort ", ["groups", "length", "name", "rate"]),
        ("topics tail --no", ["--no-follow"]),
        ("completion ", ["bash", "fish", "zsh"]),
    ],
)
def test_a_shell_completes_every_command(words, offered):
    assert sorted(complete(words)) == offered


def test_a_shell_completes_the_names_of_streams(url, client):
    for name in ("orders", "orders-enriched", "other"):
        client.xadd(name, {"f": "v"})
    client.set("ordinary", "no stream")
    assert complete("tail ord", STREAMD_URL=url) == ["orders", "orders-enriched"]
    assert complete("tail x", STREAMD_URL=url) == []
    assert complete("tail o", STREAMD_URL="redis://127.0.0.1:1") == []


@pytest.mark.parametrize(("shell", "word"), [("bash", "complete"), ("zsh", "compdef"), ("fish", "complete")])
def test_what_makes_a_shell_complete_is_printed(shell, word):
    done = run_cli("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert word in done.stdout
    assert "_STREAMD_COMPLETE" in done.stdout


def test_without_click_it_says_what_to_install():
    program = "import sys; sys.modules['click'] = None; from streamd import cli; sys.exit(cli.main(['tail', 'orders']))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "streamd: tail needs click: pip install 'streamd-server[cli]'\n"


@pytest.mark.parametrize(
    ("words", "same"), [("-V", "--version"), ("help", "--help"), ("help tail", "tail --help"), ("help ui", "ui --help")]
)
def test_help_and_version_have_the_words_that_people_try(words, same):
    done, wanted = run_cli(*words.split()), run_cli(*same.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == wanted.stdout != ""


def test_the_list_of_commands_names_them_all():
    helps = run_cli("--help").stdout
    for word in ("tail", "top", "bench", "completion", "serve", "topics"):
        assert f"\n    {word}" in helps


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://ann:secret@host:1/2", "redis://host:1/2"),
        ("redis://:p@ss@host", "redis://host"),
        ("unix://:secret@/run/x.sock", "unix:///run/x.sock"),
        ("redis://host?password=secret&db=1", "redis://host?password=...&db=1"),
        ("redis://host", "redis://host"),
    ],
)
def test_a_url_is_shown_without_its_password(url, shown):
    assert without_password(url) == shown


def test_json_of_a_running_tail_comes_line_by_line(url, client):
    client.xadd("orders", {"n": 1})
    words = [*STREAMD, "tail", "orders", "--json", "--url", url]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, env=environment())
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["fields"] == {"n": "1"}
        client.xadd("orders", {"n": 2})
        assert json.loads(process.stdout.readline())["fields"] == {"n": "2"}
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.communicate()
    assert isinstance(client, redis.Redis)


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-1"])
def test_a_value_that_the_encoding_lacks_comes_as_an_escape(url, client, encoding):
    client.xadd("orders", {"note": "from 3 – to 5"})
    words = [*STREAMD, "tail", "orders", "--no-follow", "--url", url]
    done = subprocess.run(words, capture_output=True, env={**environment(), "PYTHONIOENCODING": encoding}, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"from 3 \\u2013 to 5" in done.stdout


@pytest.mark.parametrize("name", ["tail", "top", "bench"])
def test_every_option_is_in_the_help_and_in_the_document(name):
    document = (Path(__file__).resolve().parents[2] / "docs" / "terminal.md").read_text(encoding="utf-8")
    section = document.split(f"## streamd {name}")[1].split("\n## ")[0]
    helped = CliRunner().invoke(terminal, [name, "--help"]).output
    options = [option.opts[0] for option in terminal.commands[name].params if option.param_type_name == "option"]
    assert len(options) >= 5
    assert [one for one in options if one not in section and one != "--url"] == []
    assert [one for one in options if one not in helped] == []
