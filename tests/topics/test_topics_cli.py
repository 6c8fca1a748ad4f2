"""`streamd topics` from a shell."""

import io
import json
import subprocess
import sys

import pytest

from streamd import cli
from streamd.base.failure import EXIT_ADDRESS, EXIT_USAGE
from streamd.clients.topics import TopicLog
from streamd.testing import EmbeddedServer


@pytest.fixture
def shell(client, capsys, monkeypatch):
    """Return a function that runs `streamd topics` with words: exit code, output, errors."""
    url = f"redis://127.0.0.1:{client.connection_pool.connection_kwargs['port']}"

    def run(*words, stdin=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = cli.main(["topics", words[0], *words[1:], "--url", url])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_a_log_is_created_written_read_shown_and_dropped(shell, client):
    code, out, _ = shell("create", "telemetry", "--shards", "2", "--filter", "devices/#", "--retention", "3600")
    assert (code, out) == (0, "log telemetry: 2 shards by publisher, filters devices/#\n")
    code, first, _ = shell("publish", "telemetry", "devices/d7", "21.5", "--publisher", "d7", "--iid", "1")
    assert shell("publish", "telemetry", "devices/d7", "21.5", "--publisher", "d7", "--iid", "1") == (0, first, "")
    code, out, _ = shell("publish", "telemetry", "devices/d8", "-", stdin="22\nä\r\n".encode())
    assert (code, len(out.splitlines())) == (0, 2)
    code, out, _ = shell("tail", "telemetry", "devices/+", "--start", "earliest", "--no-follow")
    shown = [json.loads(line) for line in out.splitlines()]
    assert sorted(one["payload"] for one in shown) == ["21.5", "22", "ä"]
    assert shown[0].keys() == {"id", "time", "topic", "publisher", "payload"}
    assert shell("tail", "telemetry", "--start", "1999-12-31T23:59", "--count", "2")[1].count("\n") == 2
    assert shell("tail", "telemetry", "--start", "latest", "--no-follow") == (0, "", "")
    code, out, _ = shell("info", "telemetry")
    assert json.loads(out)["generations"][0]["filters"] == ["devices/#"]
    assert shell("info") == (0, "telemetry\n", "")
    TopicLog.open(client, "telemetry").reconfigure(shards=1)
    assert shell("drop", "telemetry", "--generation", "1")[1] == "dropped generation 1 of log telemetry\n"
    assert shell("drop", "telemetry") == (0, "dropped log telemetry\n", "")
    assert shell("info") == (0, "no logs\n", "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["create", "log", "--shards", "0"], "shards 0: give a whole number from 1"),
        (["create", "a/b"], "a name has 1 to 100 letters"),
        (["create", "log", "--filter", "a#"], "# at position 1 is only a part of its level"),
        (
            ["publish", "none", "t", "x"],
            "no log 'none': create it, with TopicLog.create or `streamd topics create none`",
        ),
        (["publish", "there", "t/#", "x"], "wildcard # at position 2"),
        (["publish", "there", "t", "-", "--publisher", "p", "--iid", "1"], "--iid names one message"),
        (["tail", "there", "--start", "noon"], "--start noon: give earliest, latest, or a time such as"),
        (["drop", "there", "--generation", "9"], "has no generation 9"),
        (["create", "there"], "log 'there' exists"),
        (["tail", "there", "--count", "0"], "--count 0: give 1 or more"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(shell, client, words, said):
    TopicLog.create(client, "there", filters=["t"])
    code, out, err = shell(*words)
    assert (code, out) == (EXIT_USAGE, "")
    assert said in err
    assert err.startswith("streamd: ")
    assert err.count("\n") == 1


def test_a_server_that_is_not_there_is_one_line_and_exit_code_3(capsys):
    assert cli.main(["topics", "info", "--url", "redis://127.0.0.1:1"]) == EXIT_ADDRESS
    assert "is a server running there? Give another with --url" in capsys.readouterr().err


def test_a_database_that_is_no_number_is_said_and_nothing_is_written_to_another(client, capsys):
    port = client.connection_pool.connection_kwargs["port"]
    assert cli.main(["topics", "create", "log", "--url", f"redis://127.0.0.1:{port}/orders"]) == EXIT_USAGE
    assert capsys.readouterr().err.startswith("streamd: database 'orders' is no number; give one behind the slash")
    assert not client.exists("{log}:meta")


def test_the_server_may_be_named_by_a_variable_and_no_password_is_shown(monkeypatch, capsys):
    with EmbeddedServer(requirepass="hunter2") as server:
        monkeypatch.setenv("STREAMD_URL", f"redis://:hunter2@127.0.0.1:{server.port}")
        assert cli.main(["topics", "create", "log"]) == 0
        for url in (f"redis://:wrong1@127.0.0.1:{server.port}", "redis://:wrong1@127.0.0.1:1"):
            monkeypatch.setenv("STREAMD_URL", url)
            assert cli.main(["topics", "info"]) == EXIT_ADDRESS
    shown = capsys.readouterr()
    assert "the user and password are those in --url or STREAMD_URL" in shown.err
    assert shown.err.count("\n") == 2
    assert "wrong1" not in shown.out + shown.err


def test_topics_alone_shows_what_there_is(capsys):
    assert cli.main(["topics"]) == EXIT_USAGE
    assert "create" in capsys.readouterr().out


def test_without_redis_py_the_server_is_served_and_topics_say_what_is_missing():
    code = (
        "import sys; sys.modules['redis'] = None\n"
        "from streamd.cli import main\n"
        "assert main(['serve', '--port', 'x']) == 2\n"
        "sys.exit(main(['topics', 'info']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "streamd: topics need redis-py: pip install 'streamd-server[client]'"
