"""`streamd ui` as it is started from a shell."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from streamd import cli

QUIET = {name: value for name, value in os.environ.items() if not name.startswith("STREAMD_")}


@pytest.fixture
def no_variables(monkeypatch):
    for name in ("STREAMD_URL", "STREAMD_UI_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def started(*arguments, **variables):
    command = [sys.executable, "-m", "streamd", "ui", "--port", "0", *arguments]
    environment = {**QUIET, **variables}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def banner(process):
    lines = []
    for line in process.stdout:
        lines.append(line)
        if "stop with" in line:
            break
    return "".join(lines)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_page_says_where_it_is_serves_and_ends_cleanly_at_a_signal(streamd_port, number):
    process = started("--url", f"redis://127.0.0.1:{streamd_port}")
    try:
        said = banner(process)
        address = re.search(r"open +(http://127\.0\.0\.1:\d+/)", said)[1]
        assert "token" not in said
        with urllib.request.urlopen(address, timeout=60) as reply:
            assert b"<h1>Overview</h1>" in reply.read()
            assert "server" not in {name.lower() for name in reply.headers}
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
    finally:
        process.kill()
        process.communicate()


def test_where_others_can_reach_it_a_token_is_made_and_printed_or_taken_from_a_variable(streamd_port):
    for variables in ({}, {"STREAMD_UI_TOKEN": "a-token-of-many-letters"}):
        process = started("--url", f"redis://127.0.0.1:{streamd_port}", "--bind", "0.0.0.0", **variables)
        try:
            said = banner(process)
            port = re.search(r"http://0\.0\.0\.0:(\d+)/", said)[1]
            token = variables.get("STREAMD_UI_TOKEN") or re.search(r"token +(\S+)", said)[1]
            assert ("STREAMD_UI_TOKEN" in said) == bool(variables)
            assert "a-token" not in said
            request = urllib.request.Request(f"http://127.0.0.1:{port}/")
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(request, timeout=60)
            request.add_header("Authorization", f"Bearer {token}")
            with urllib.request.urlopen(request, timeout=60) as reply:
                assert reply.status == 200
        finally:
            process.kill()
            process.communicate()


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--url", "http://x"], 2, "Redis URL must specify one of the following schemes"),
        (["--url", "redis://127.0.0.1:1/db"], 2, "database 'db' is no number"),
        (["--url", "redis://127.0.0.1:1"], 3, "redis://127.0.0.1:1 cannot be reached"),
        (["--port", "70000"], 2, "--port 70000: give one from 0 to 65535"),
        (["--bind", "203.0.113.1"], 3, "choose another with --bind, --port"),
        (["--port", "x"], 2, "--port"),
    ],
)
def test_what_does_not_work_is_said_in_one_line(no_variables, streamd_port, capsys, arguments, code, text):
    given = arguments if "--url" in arguments else ["--url", f"redis://127.0.0.1:{streamd_port}", *arguments]
    assert cli.main(["ui", *given]) == code
    said = capsys.readouterr().err
    assert text in said
    assert said.startswith("streamd: ")
    assert said.count("\n") == 1


def test_a_port_in_use_is_said_with_what_to_do(no_variables, streamd_port, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert cli.main(["ui", "--url", f"redis://127.0.0.1:{streamd_port}", "--port", str(port)]) == 3
    assert capsys.readouterr().err == (
        f"streamd: 127.0.0.1:{port}: Address already in use; choose another with --bind, --port\n"
    )


def test_a_token_that_can_be_guessed_is_refused(no_variables, monkeypatch, capsys):
    monkeypatch.setenv("STREAMD_UI_TOKEN", "secret")
    assert cli.main(["ui"]) == 2
    assert "shorter than 16 characters" in capsys.readouterr().err


def test_a_password_that_is_wrong_or_missing_is_said(no_variables, capsys):
    from streamd.testing import EmbeddedServer

    with EmbeddedServer(requirepass="right") as server:
        for url in (f"redis://127.0.0.1:{server.port}", f"redis://:wrong@127.0.0.1:{server.port}"):
            assert cli.main(["ui", "--url", url]) == 3
            said = capsys.readouterr().err
            assert "give it in --url or STREAMD_URL" in said
            assert said.count("\n") == 1


@pytest.mark.parametrize("missing", ["starlette", "uvicorn", "jinja2", "redis"])
def test_without_its_packages_it_says_how_to_install_them(missing):
    program = f"import sys; sys.modules['{missing}'] = None; from streamd.cli import main; sys.exit(main(['ui']))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=QUIET, timeout=60)
    assert (ended.returncode, ended.stderr) == (
        2,
        f"streamd: the page needs {missing}: pip install 'streamd-server[ui]'\n",
    )


def test_the_options_of_the_page_are_known_without_what_it_needs():
    program = "import sys, streamd.cli; streamd.cli._parser(['ui']); print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "streamd.clients.ui.cli" in modules
    assert [name for name in modules if name.startswith("streamd.clients.ui")] == [
        "streamd.clients.ui",
        "streamd.clients.ui.cli",
    ]
    assert not {"starlette", "uvicorn", "jinja2", "redis", "secrets"} & set(modules)
