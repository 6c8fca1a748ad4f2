"""The lines of a shell in the documents run, and print what is shown below them.

What would install, build or send mail is a stand-in that looks at its words; what serves is started, and ended behind
the block. Ports, URLs and absolute paths are those of the test.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

import pytest

from bench.ports import free_port
from streamd.base.clock import Clock, ManualClock
from streamd.testing import EmbeddedServer
from tests.documents.blocks import ROOT, Block, blocks_for
from tests.spark.deployments import make_certificates

BEGIN_MS = 1_795_248_000_000
TIMEOUT_S = 60
OUR_PLACES = re.compile(r"(?<![\w./-])/(?=(?:opt|var/lib|run|etc|backups)/)")
SERVES = re.compile(r"(?:\S*/)?streamd (?:serve|ui)\b|redis-server\b")

PIP_PROGRAM = f"""
import re, sys, tomllib
project = tomllib.load(open({str(ROOT / "pyproject.toml")!r}, "rb"))["project"]
wanted = [word for word in sys.argv[2:] if word != "-e"]
assert sys.argv[1] == "install" and wanted
for word in wanted:
    name, extras = re.fullmatch(r"([.])(?:[[]([a-z,]+)[]])?", word).groups()
    assert set((extras or "cli").split(",")) <= set(project["optional-dependencies"]), word
"""
PIP = """#!/bin/sh
exec "$PYTHON" "$STAND_INS/pip.py" "$@"
"""
VENV = """#!/bin/sh
[ "$1 $2" = "-m venv" ] && mkdir -p "$3/bin" && cp "$STAND_INS/pip" "$3/bin" && ln -s "$STREAMD" "$3/bin/streamd"
"""


class Shell:
    """A directory with stand-ins in front of the path, and the server that the documents speak of."""

    def __init__(self, place: Path, server: EmbeddedServer) -> None:
        self.place = place
        self.port = server.port
        self.serving: list[subprocess.Popen[str]] = []
        stand_ins = place / "stand-ins"
        scripts = {
            "pip": PIP,
            "python3": VENV,
            "pip.py": PIP_PROGRAM,
            "make": f'#!/bin/sh\nexec {shutil.which("make")} -C {shlex.quote(str(ROOT))} -n "$@" >/dev/null\n',
            "git": '#!/bin/sh\n[ "$1" = clone ] && mkdir "$3"\n',
            "mail": "#!/bin/sh\ngrep -q stream\n",
            "redis-server": f'#!/bin/sh\nexec {shutil.which("redis-server")} --port "$STREAMD_PORT" --save "" "$@"\n',
            "redis-cli": f'#!/bin/sh\necho PING | {shutil.which("redis-cli")} -p "$REDIS_PORT" "$@" | grep -q PONG\n',
        }
        stand_ins.mkdir()
        for name, text in scripts.items():
            (stand_ins / name).write_text(text)
            (stand_ins / name).chmod(0o755)
        self.environment = {
            **os.environ,
            "PATH": f"{stand_ins}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "STAND_INS": str(stand_ins),
            "PYTHON": sys.executable,
            "STREAMD": str(Path(sys.executable).parent / "streamd"),
            "STREAMD_PORT": str(free_port()),
            "STREAMD_URL": server.url,
            "REDIS_PORT": str(self.port),
            "HOME": str(place),
            "TZ": "UTC",
        }

    def of_this_place(self, line: str) -> str:
        """Return a line with the port, the URLs and the paths of this test."""
        line = line.replace("10.0.0.5", "127.0.0.1").replace("6379", str(self.port))
        line = OUR_PLACES.sub(f"{self.place}/", line)
        return re.sub(r"(streamd ui\b)", r"\1 --port 0", line)

    def start(self, line: str) -> None:
        """Start what serves; return when it says where."""
        process = subprocess.Popen(
            ["sh", "-c", f"exec {line}"],
            cwd=self.place,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.serving.append(process)
        assert process.stdout is not None
        said = []
        for text in process.stdout:
            said.append(text)
            if "Ready to accept" in text or " open  " in text:
                return
        raise AssertionError(f"{line} ended: {said}")

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        """Return what a line did; its output is one text, as on a terminal."""
        return subprocess.run(
            ["sh", "-c", line],
            cwd=self.place,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def end(self) -> None:
        """End what serves, as Ctrl-C does."""
        for process in self.serving:
            process.send_signal(signal.SIGINT)
        for process in self.serving:
            process.communicate(timeout=TIMEOUT_S)
            assert process.returncode == 0, process.args


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A shell beside a server with a journal, on a clock that runs."""
    with EmbeddedServer(Clock(), appendonly=True, dir=str(tmp_path / "data")) as server:
        server.client().xadd("orders", {"order": "order-1001"})
        shell = Shell(tmp_path, server)
        yield shell
        for process in shell.serving:
            process.kill()
            process.wait()


def journal(shell: Shell) -> None:
    with EmbeddedServer(Clock(), appendonly=True, dir=str(shell.place / "DIR")) as server:
        server.client().xadd("orders", {"order": "order-1001"})


def certificates(shell: Shell) -> None:
    made = make_certificates(shell.place)
    unlocked = shell.place / "unlocked"
    words = ["-passin", f"pass:{made.client_key_password}", "-out", str(unlocked)]
    subprocess.run(["openssl", "rsa", "-in", made.client_key, *words], check=True, capture_output=True)
    unlocked.replace(made.client_key)
    shell.port = free_port()
    shell.environment["REDIS_PORT"] = str(shell.port)


def socket_directory(shell: Shell) -> None:
    (shell.place / "run" / "streamd").mkdir(parents=True)


def config_file(shell: Shell) -> None:
    (shell.place / "etc" / "redis").mkdir(parents=True)
    (shell.place / "etc" / "redis" / "redis.conf").write_text("maxmemory 2gb\nappendfsync always\n")


def spark_job(shell: Shell) -> None:
    python = shell.place / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    job = "import os, sys\nassert os.environ['JAVA_HOME'] and os.environ['PYSPARK_PYTHON'] == sys.executable\n"
    (shell.place / "job.py").write_text(job)  # the job itself is what tests/spark/test_start_example.py runs


# What has to be there before a block: its document and its first words.
PREPARED: dict[tuple[str, str], Callable[[Shell], None]] = {
    ("docs/guarantees.md", "streamd check DIR"): journal,
    ("docs/operations.md", "streamd backup /backups/before"): config_file,
    ("docs/operations.md", "streamd check DIR --export"): journal,
    ("docs/security.md", "streamd serve --port 0 --tls-port"): certificates,
    ("docs/security.md", "streamd serve --port 0 --unixsocket"): socket_directory,
    ("docs/start.md", "eval"): spark_job,
}


def lines_of(text: str) -> list[str]:
    """Return the commands of a block; a line that ends with a backslash goes on."""
    lines = text.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize("block", [one for one in blocks_for(__file__) if one.language == "sh"], ids=str)
def test_the_lines_of_a_block_end_well(block: Block, shell: Shell):
    for program in ("redis-cli", "redis-server"):
        if program in block.text and shutil.which(program) is None:
            pytest.skip(f"there is no {program}")
    for (document, begin), prepare in PREPARED.items():
        if block.document == document and block.text.startswith(begin):
            prepare(shell)
    for is_server, lines in groupby(lines_of(block.text), lambda line: bool(SERVES.match(line))):
        script = shell.of_this_place("\n".join(lines))
        if is_server:
            shell.start(script)
        else:
            done = shell.run(f"set -e\n{script}")
            assert done.returncode == 0, f"{script}: {done.stdout}"
    shell.end()


# -- with what is shown below a line -----------------------------------------------------------------------------------


def exchanges(text: str) -> list[tuple[str, str]]:
    """Return the commands of a session, each with what is shown below it."""
    parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)
    assert parts[0] == "", "a session begins with a prompt"
    return list(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("block", [one for one in blocks_for(__file__) if one.language == "console"], ids=str)
def test_a_session_shows_what_is_printed(block: Block, tmp_path: Path):
    (tmp_path / "redis.conf").write_text("# a file\nbind 127.0.0.1\nprot 7000\n")
    with EmbeddedServer(ManualClock(BEGIN_MS)) as server:
        client = server.client()
        client.xgroup_create("orders", "billing", id="0", mkstream=True)
        client.xadd("orders", {"order": "order-1001", "cents": 4990})
        client.xack("orders", "billing", *client.xreadgroup("billing", "ann", {"orders": ">"})[0][1][0][:1])
        server.advance(milliseconds=412)
        client.xadd("orders", {"order": "order-1002", "cents": 150})
        client.xreadgroup("billing", "ann", {"orders": ">"})
        server.advance(seconds=12)
        shell = Shell(tmp_path, server)
        shell.environment["STREAMD_URL"] = f"redis://127.0.0.1:{server.port}"
        nobody = str(free_port())
        for line, shown in exchanges(block.text):
            more = " --no-follow" if "tail" in line and "--no-follow" not in line else ""
            done = shell.run(shell.of_this_place(line).replace("7000", nobody) + more)
            printed = done.stdout.replace(str(server.port), "6379").replace(nobody, "7000")
            assert [text.rstrip() for text in printed.splitlines()] == shown.splitlines(), line


def test_a_line_that_fails_is_noticed(shell: Shell):
    assert shell.run("make no-such-target").returncode != 0
    assert shell.run('pip install ".[nothing]"').returncode != 0
    assert shell.run(shell.of_this_place("streamd check /opt/nothing")).returncode != 0
