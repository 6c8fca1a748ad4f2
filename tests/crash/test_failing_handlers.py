"""Whatever fails in a handler, at whichever access to the data: the server lives, and what is recorded is what is there."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import streamd
from streamd.catalog import COMMANDS, Command
from tests.accesses import ACCESSES, PREPARED
from tests.crash.restartable import Restartable
from tests.crash.simulated_disk import SimulatedDisk
from tests.crash.state_dump import dump

ROOT = str(Path(streamd.__file__).parent)
# Who calls, and what is called: an access is a call over this border.
COMMAND_FILES = (f"{ROOT}/commands/", f"{ROOT}/catalog/applying.py")
DATA_FILES = tuple(f"{ROOT}/{room}" for room in ("data/", "stream/", "idmp/", "catalog/context.py", "session/"))

# What stands in no other table of requests: one at least for every command that writes.
MORE = """
""".strip().splitlines()
REQUESTS = [*dict.fromkeys([*(row[0] for row in ACCESSES), *MORE])]


class Failure(Exception):
    """What is injected."""


class Injection:
    """Fails at the n-th access of a handler; with 0 it only counts them."""

    def __init__(self, fails_at: int = 0) -> None:
        self.fails_at = fails_at
        self.accesses = 0

    def around(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        """Return the handler with its accesses watched."""

        def watched(*args: Any) -> Any:
            sys.settrace(self._called)
            try:
                return handler(*args)
            finally:
                sys.settrace(None)

        return watched

    def _called(self, frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and frame.f_back is not None and frame.f_code.co_filename.startswith(DATA_FILES):
            if frame.f_back.f_code.co_filename.startswith(COMMAND_FILES):
                self.accesses += 1
                if self.accesses == self.fails_at:
                    raise Failure(frame.f_code.co_qualname)


def prepared() -> SimulatedDisk:
    server = Restartable(appendfsync="always")
    for line in PREPARED:
        assert server.send(*line.split()) is not None
    return server.disk.kill()


DISK = prepared()


def leaf(words: list[str]) -> Command:
    command = COMMANDS[words[0].lower().encode()]
    return command.subcommands.get(words[1].lower().encode(), command) if command.subcommands and words[1:] else command


def play(request: str, injection: Injection) -> tuple[Restartable, bytes | None]:
    server = Restartable(DISK.kill(), appendfsync="always")
    words = request.split()
    command = server.engine.commands[words[0].lower().encode()]
    if command.subcommands and len(words) > 1:
        command = command.subcommands.get(words[1].lower().encode(), command)
    before, command.handler = command.handler, injection.around(command.handler)
    try:
        return server, server.send(*words)
    finally:
        command.handler = before


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_handler_that_fails_leaves_what_is_recorded(request_):
    counting = Injection()
    play(request_, counting)
    for fails_at in range(1, counting.accesses + 1):
        server, reply = play(request_, Injection(fails_at))
        assert reply == b"-ERR internal error\r\n"
        server.cron()
        found = dump(server.engine)
        assert dump(server.restart().engine) == found, fails_at
        assert server.send("PING", client=server.connect()) == b"+PONG\r\n"
