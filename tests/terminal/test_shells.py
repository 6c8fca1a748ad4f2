"""What `streamd completion` prints works in the shells themselves, as far as they are installed."""

import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from streamd.testing import EmbeddedServer

TIMEOUT_S = 60
PROMPT = b"ready> "
# As a shell finds it; whatever is not about completion only prints its arguments.
PROGRAM = """#!/bin/sh
if [ "$1" = completion ] || [ -n "$_STREAMD_COMPLETE" ]; then exec {python} -m streamd "$@"; fi
printf ran; printf '[%s]' "$@"; echo
"""
# Each with its file of settings, in front of which it gets its prompt.
SHELLS = {
    "bash": (["bash", "--rcfile", "{home}/.bashrc", "-i"], ".bashrc", 'eval "$(streamd completion bash)"'),
    "zsh": (["zsh", "-i"], ".zshrc", 'autoload -Uz compinit && compinit -u -D\neval "$(streamd completion zsh)"'),
}
# What is typed before the tabulator, and the arguments that streamd then gets.
TYPED = {
    "se": ["serve"],
    "serve --appendfsync al": ["serve", "--appendfsync", "always"],
    "mqtt sess": ["mqtt", "session"],
    "mqtt bench p2": ["mqtt", "bench", "p2p"],
    "serve --appendfsync=al": ["serve", "--appendfsync=always"],
    "tail orders:e": ["tail", "orders:eu"],
    "tail 'orders:e": ["tail", "orders:eu"],
    "tail --count=5 plain,c": ["tail", "--count=5", "plain,comma"],
    "tail level=": ["tail", "level=high"],
}
STREAMS = ("orders:eu", "orders:us", "plain,comma", "plain,other", "level=high")


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"there is no {shell}")


@pytest.fixture
def environment(tmp_path: Path):
    """What a shell is started with: `streamd` on its path, and a server with streams."""
    program = tmp_path / "bin" / "streamd"
    program.parent.mkdir()
    program.write_text(PROGRAM.format(python=shlex.quote(sys.executable)))
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    with EmbeddedServer() as server, server.client() as client:
        for name in STREAMS:
            client.xadd(name, {"f": "v"})
        settings = {"STREAMD_URL": server.url, "HOME": str(tmp_path), "ZDOTDIR": str(tmp_path), "TERM": "dumb"}
        yield {**os.environ, **settings, "PATH": path}


class Typist:
    """Types into a shell on a terminal."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.fd, theirs = pty.openpty()
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
        )
        os.close(theirs)
        self.read_until(re.escape(PROMPT))

    def type(self, keys: str) -> list[str]:
        """Type a line; return the arguments with which streamd ran."""
        os.write(self.fd, keys.encode() + b"\n")
        said = self.read_until(rb"ran((?:\[[^\]]*\])*)\r?\n[^$]*" + re.escape(PROMPT))
        return re.findall(r"\[([^\]]*)\]", said[1].decode())

    def read_until(self, pattern: bytes) -> re.Match[bytes]:
        said, deadline = b"", time.monotonic() + TIMEOUT_S
        while not (found := re.search(pattern, said)):
            ready, _, _ = select.select([self.fd], [], [], max(deadline - time.monotonic(), 0))
            assert ready, said
            said += os.read(self.fd, 1 << 16)
        return found

    def close(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(TIMEOUT_S)
        os.close(self.fd)


@pytest.mark.parametrize("shell", [pytest.param(name, marks=needs(name)) for name in SHELLS])
def test_a_word_that_is_completed_is_the_word_that_runs(shell, environment, tmp_path):
    command, settings, lines = SHELLS[shell]
    (tmp_path / settings).write_text(f"PS1={shlex.quote(PROMPT.decode())}\n{lines}\n")
    typist = Typist([word.format(home=tmp_path) for word in command], environment)
    try:
        assert {typed: typist.type(f"streamd {typed}\t") for typed in TYPED} == TYPED
    finally:
        typist.close()


def fish(environment, *lines: str) -> list[str]:
    """Return what fish offers behind each of the lines, after the one line of its settings."""
    asked = "; ".join(f"complete -C {shlex.quote(line)}" for line in lines)
    words = ["fish", "--no-config", "-c", f"streamd completion fish | source; {asked}"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@needs("fish")
def test_fish_completes_after_streamd_completion_fish_is_sourced(environment):
    offered = fish(environment, *(f"streamd {typed}" for typed in TYPED))
    assert [line.partition("\t")[0] for line in offered] == [arguments[-1] for arguments in TYPED.values()]
    assert fish(environment, "streamd tail ord", "streamd tail nothing") == ["orders:eu", "orders:us"]


@needs("fish")
def test_fish_shows_a_description_with_its_commas(environment):
    assert fish(environment, "streamd to") == [
        "top\twatch a server: streams, groups, rates, clients",
        "topics\tlogs of messages by topic: create, publish, tail, info, drop",
    ]
